"""Uses a server through the committed Python stubs and prints what it saw.

usage: client.py HOST:PORT TOPIC
"""

import json
import sys

import grpc

from sluice.log.v1 import group_pb2, group_pb2_grpc
from sluice.log.v1 import log_pb2, log_pb2_grpc
from sluice.log.v1 import topic_pb2, topic_pb2_grpc

# More than a double can hold exactly.
RETENTION_MS = 2**53 + 1


def main(server, topic):
    with grpc.insecure_channel(server) as channel:
        topics = topic_pb2_grpc.TopicServiceStub(channel)
        log = log_pb2_grpc.LogServiceStub(channel)
        groups = group_pb2_grpc.GroupServiceStub(channel)

        create = topic_pb2.CreateTopicRequest(
            name=topic,
            partitions=2,
            config=topic_pb2.TopicConfig(retention_ms=RETENTION_MS),
        )
        topics.CreateTopic(create, timeout=30)
        config = topics.GetTopicConfig(topic_pb2.GetTopicConfigRequest(name=topic), timeout=30).config
        try:
            topics.CreateTopic(create, timeout=30)
            refused = "OK"
        except grpc.RpcError as error:
            refused = error.code().name

        produced = log.Produce(
            log_pb2.ProduceRequest(
                topic=topic,
                records=[
                    log_pb2.ProduceRecord(key=b"user-1", value=b"checkout"),
                    log_pb2.ProduceRecord(key=b"user-2", value=b"signup"),
                    log_pb2.ProduceRecord(value=bytes([0xFF, 0x00]), partition=1),
                ],
            ),
            timeout=30,
        )

        records = []
        for partition in range(2):
            page = log.Consume(log_pb2.ConsumeRequest(topic=topic, partition=partition, offset=0), timeout=30)
            for record in page.records:
                records.append({
                    "partition": record.partition,
                    "offset": record.offset,
                    "key": record.key.decode() if record.HasField("key") else None,
                    "value": record.value.hex(),
                })
        groups.CommitOffset(
            group_pb2.CommitOffsetRequest(group=topic, topic=topic, partition=1, offset=2), timeout=30)
        offsets = groups.GetOffsets(group_pb2.GetOffsetsRequest(group=topic), timeout=30).offsets

    print(json.dumps({
        "retention_ms": str(config.retention_ms),
        "refused": refused,
        "produced": [[result.partition, result.offset] for result in produced.results],
        "records": records,
        "committed": offsets[topic].partitions[1],
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
