"""Serializers of the Kafka world against the registry API at the URL given: what
one client writes another reads, and schemas evolve as the registry allows."""

import base64
import json
import sys

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.rpc.http_pb2 import HttpHeader

settings = {"url": sys.argv[1]}
if len(sys.argv) > 2:
    settings["basic.auth.user.info"] = "key:" + sys.argv[2]


def client():
    """A client without what another one remembers."""
    return SchemaRegistryClient(settings)


def value(topic):
    return SerializationContext(topic, MessageField.VALUE)


def refused(code, call):
    try:
        call()
    except SchemaRegistryError as error:
        assert error.error_code == code, (error.error_code, code, error)
        return
    raise AssertionError(f"not refused with {code}")


def json_schemas():
    v1 = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    v2 = {**v1, "properties": {**v1["properties"], "note": {"type": "string"}}}
    bad = {**v2, "required": ["id", "note"]}
    written = JSONSerializer(json.dumps(v1), client())({"id": 1}, value("json"))
    assert written[0] == 0, written
    later = JSONSerializer(json.dumps(v2), client())({"id": 2, "note": "x"}, value("json"))
    assert written[1:5] != later[1:5], "two schemas have one id"
    read = JSONDeserializer(None, schema_registry_client=client())
    assert read(written, value("json")) == {"id": 1}
    assert read(later, value("json")) == {"id": 2, "note": "x"}
    refused(409, lambda: JSONSerializer(json.dumps(bad), client())({"id": 3, "note": "y"}, value("json")))

    c = client()
    person = c.register_schema("person", Schema(json.dumps({"type": "object", "properties": {"name": {"type": "string"}}}), "JSON"))
    uses = Schema(
        json.dumps({"title": "Sale", "type": "object", "properties": {"by": {"$ref": "person.json"}}}),
        "JSON", [SchemaReference("person.json", "person", 1)])
    assert c.register_schema("sales-value", uses) != person
    sold = JSONSerializer(uses, c)({"by": {"name": "Ada"}}, value("sales"))
    assert JSONDeserializer(None, schema_registry_client=client())(sold, value("sales")) == {"by": {"name": "Ada"}}


def avro_schemas():
    v1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    v2 = {**v1, "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}]}
    bad = {**v2, "fields": v2["fields"] + [{"name": "must", "type": "string"}]}
    written = AvroSerializer(client(), json.dumps(v1))({"id": 1}, value("avro"))
    later = AvroSerializer(client(), json.dumps(v2))({"id": 2, "note": "x"}, value("avro"))
    assert AvroDeserializer(client())(written, value("avro")) == {"id": 1}
    # Read with the newer schema, which fills in what was not written.
    assert AvroDeserializer(client(), json.dumps(v2))(written, value("avro")) == {"id": 1, "note": "-"}
    assert AvroDeserializer(client())(later, value("avro")) == {"id": 2, "note": "x"}
    refused(409, lambda: AvroSerializer(client(), json.dumps(bad))({"id": 3, "note": "", "must": ""}, value("avro")))


def protobuf_schemas():
    written = ProtobufSerializer(HttpHeader, client(), {"use.deprecated.format": False})(HttpHeader(key="k"), value("protobuf"))
    read = ProtobufDeserializer(HttpHeader, {"use.deprecated.format": False}, client())
    assert read(written, value("protobuf")).key == "k"
    c = client()
    one = c.register_schema("text-value", Schema('syntax = "proto3"; message A { int32 x = 1; }', "PROTOBUF"))
    # A deserializer asks for a text as a descriptor.
    base64.b64decode(client().get_schema(one, fmt="serialized").schema_str, validate=True)
    assert c.register_schema("text-value", Schema('syntax = "proto3"; message A { int64 x = 1; }', "PROTOBUF")) > one
    refused(409, lambda: client().register_schema("text-value", Schema('syntax = "proto3"; message A { string x = 1; }', "PROTOBUF")))


def administration():
    c = client()
    assert "json-value" in c.get_subjects(), c.get_subjects()
    assert c.get_versions("json-value") == [1, 2]
    latest = c.get_latest_version("json-value")
    assert latest.version == 2 and c.get_version("json-value", 1).version == 1
    assert c.get_schema(latest.schema_id).schema_type == "JSON"
    assert c.lookup_schema("json-value", latest.schema).schema_id == latest.schema_id
    assert c.test_compatibility("json-value", latest.schema)
    assert not c.test_compatibility("json-value", Schema('{"type":"string"}', "JSON"))
    assert c.get_compatibility() == "BACKWARD"
    c.set_compatibility("json-value", "NONE")
    assert c.get_compatibility("json-value") == "NONE"
    refused(40401, lambda: client().get_latest_version("nothing-value"))
    refused(40402, lambda: client().get_version("json-value", 9))
    refused(40403, lambda: client().get_schema(999999))
    refused(42201, lambda: client().register_schema("bad-value", Schema('{"type":"nothing"}', "JSON")))
    assert c.delete_version("json-value", 1) == 1
    assert c.delete_subject("json-value") == [2]
    assert sorted(c.delete_subject("avro-value", permanent=False)) == [1, 2]
    assert sorted(c.delete_subject("avro-value", permanent=True)) == [1, 2]
    assert "json-value" not in client().get_subjects()


for part in (json_schemas, avro_schemas, protobuf_schemas, administration):
    part()
    print("ok", part.__name__)
