// Uses a server through the committed TypeScript stubs and prints what it saw.
//
// usage: client.js HOST:PORT TOPIC

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { GroupService } from "./gen/sluice/log/v1/group_pb";
import { LogService } from "./gen/sluice/log/v1/log_pb";
import { TopicService } from "./gen/sluice/log/v1/topic_pb";

// More than a double can hold exactly.
const retentionMs = 2n ** 53n + 1n;

async function main(server: string, topic: string): Promise<void> {
  const transport = createGrpcTransport({ baseUrl: `http://${server}`, defaultTimeoutMs: 30_000 });
  const topics = createClient(TopicService, transport);
  const log = createClient(LogService, transport);
  const groups = createClient(GroupService, transport);

  const create = { name: topic, partitions: 2, config: { retentionMs } };
  await topics.createTopic(create);
  const { config } = await topics.getTopicConfig({ name: topic });
  let refused = "OK";
  try {
    await topics.createTopic(create);
  } catch (error) {
    refused = Code[ConnectError.from(error).code];
  }

  const text = (s: string) => new TextEncoder().encode(s);
  const produced = await log.produce({
    topic,
    records: [
      { key: text("user-1"), value: text("checkout") },
      { key: text("user-2"), value: text("signup") },
      { value: new Uint8Array([0xff, 0x00]), partition: 1 },
    ],
  });

  const records = [];
  for (let partition = 0; partition < 2; partition++) {
    const page = await log.consume({ topic, partition, offset: 0n });
    for (const record of page.records) {
      records.push({
        partition: record.partition,
        offset: Number(record.offset),
        key: record.key === undefined ? null : new TextDecoder().decode(record.key),
        value: Buffer.from(record.value).toString("hex"),
      });
    }
  }
  await groups.commitOffset({ group: topic, topic, partition: 1, offset: 2n });
  const { offsets } = await groups.getOffsets({ group: topic });

  console.log(JSON.stringify({
    retention_ms: String(config?.retentionMs),
    refused,
    produced: produced.results.map((result) => [result.partition, Number(result.offset)]),
    records,
    committed: Number(offsets[topic]?.partitions[1]),
  }));
}

void main(process.argv[2]!, process.argv[3]!);
