from google.api import annotations_pb2 as _annotations_pb2
from sluice.api.v1 import json_pb2 as _json_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunRetentionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunRetentionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunCompactionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunCompactionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListProducersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListProducersResponse(_message.Message):
    __slots__ = ("producers",)
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    def __init__(self, producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("producer_id", "owner", "last_used_ms", "partitions")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    producer_id: str
    owner: str
    last_used_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[ProducerPartition]
    def __init__(self, producer_id: _Optional[str] = ..., owner: _Optional[str] = ..., last_used_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ProducerPartition, _Mapping]]] = ...) -> None: ...

class ProducerPartition(_message.Message):
    __slots__ = ("topic", "partition", "last_sequence", "last_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    last_sequence: int
    last_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., last_sequence: _Optional[int] = ..., last_offset: _Optional[int] = ...) -> None: ...

class DeleteProducerRequest(_message.Message):
    __slots__ = ("producer_id", "owner")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    producer_id: str
    owner: str
    def __init__(self, producer_id: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class DeleteProducerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("groups_affected", "entries_reset")
    GROUPS_AFFECTED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_RESET_FIELD_NUMBER: _ClassVar[int]
    groups_affected: int
    entries_reset: int
    def __init__(self, groups_affected: _Optional[int] = ..., entries_reset: _Optional[int] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "live", "forgotten", "roles", "rack", "replicas", "deleting_topics")
    ID_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DELETING_TOPICS_FIELD_NUMBER: _ClassVar[int]
    id: str
    live: bool
    forgotten: bool
    roles: _containers.RepeatedScalarFieldContainer[str]
    rack: str
    replicas: int
    deleting_topics: int
    def __init__(self, id: _Optional[str] = ..., live: _Optional[bool] = ..., forgotten: _Optional[bool] = ..., roles: _Optional[_Iterable[str]] = ..., rack: _Optional[str] = ..., replicas: _Optional[int] = ..., deleting_topics: _Optional[int] = ...) -> None: ...

class ForgetNodeRequest(_message.Message):
    __slots__ = ("node_id", "force")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    force: bool
    def __init__(self, node_id: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class ForgetNodeResponse(_message.Message):
    __slots__ = ("lost_topics",)
    LOST_TOPICS_FIELD_NUMBER: _ClassVar[int]
    lost_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lost_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTieredSegmentsRequest(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class ListTieredSegmentsResponse(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[TieredSegment]
    def __init__(self, segments: _Optional[_Iterable[_Union[TieredSegment, _Mapping]]] = ...) -> None: ...

class TieredSegment(_message.Message):
    __slots__ = ("base_offset", "last_offset", "size_bytes", "uploaded_at_ms", "max_timestamp_ms", "object", "local")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    last_offset: int
    size_bytes: int
    uploaded_at_ms: int
    max_timestamp_ms: int
    object: str
    local: bool
    def __init__(self, base_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., uploaded_at_ms: _Optional[int] = ..., max_timestamp_ms: _Optional[int] = ..., object: _Optional[str] = ..., local: _Optional[bool] = ...) -> None: ...

class GetRaftRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRaftResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[RaftPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[RaftPartition, _Mapping]]] = ...) -> None: ...

class RaftPartition(_message.Message):
    __slots__ = ("topic", "partition", "node", "role", "term", "leader", "commit_index", "last_index", "replicas", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    node: str
    role: str
    term: int
    leader: str
    commit_index: int
    last_index: int
    replicas: _containers.RepeatedCompositeFieldContainer[RaftReplica]
    error: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., node: _Optional[str] = ..., role: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[str] = ..., commit_index: _Optional[int] = ..., last_index: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[RaftReplica, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class RaftReplica(_message.Message):
    __slots__ = ("node", "role", "match_index", "next_index", "state")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    node: str
    role: str
    match_index: int
    next_index: int
    state: str
    def __init__(self, node: _Optional[str] = ..., role: _Optional[str] = ..., match_index: _Optional[int] = ..., next_index: _Optional[int] = ..., state: _Optional[str] = ...) -> None: ...

class Acl(_message.Message):
    __slots__ = ("action", "topic_prefix")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PREFIX_FIELD_NUMBER: _ClassVar[int]
    action: str
    topic_prefix: str
    def __init__(self, action: _Optional[str] = ..., topic_prefix: _Optional[str] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("key_id", "name", "acls", "produce_bytes_per_sec", "consume_bytes_per_sec", "created_at_ms", "disabled")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_BYTES_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    name: str
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    produce_bytes_per_sec: int
    consume_bytes_per_sec: int
    created_at_ms: int
    disabled: bool
    def __init__(self, key_id: _Optional[str] = ..., name: _Optional[str] = ..., acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., produce_bytes_per_sec: _Optional[int] = ..., consume_bytes_per_sec: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., disabled: _Optional[bool] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("name", "acls", "produce_bytes_per_sec", "consume_bytes_per_sec")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_BYTES_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    name: str
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    produce_bytes_per_sec: int
    consume_bytes_per_sec: int
    def __init__(self, name: _Optional[str] = ..., acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., produce_bytes_per_sec: _Optional[int] = ..., consume_bytes_per_sec: _Optional[int] = ...) -> None: ...

class CreateKeyResponse(_message.Message):
    __slots__ = ("key", "secret")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    key: Key
    secret: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., secret: _Optional[str] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    def __init__(self, keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ...) -> None: ...

class DeleteKeyRequest(_message.Message):
    __slots__ = ("key_id",)
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    def __init__(self, key_id: _Optional[str] = ...) -> None: ...

class DeleteKeyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
