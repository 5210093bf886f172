// Package topicconfig has the configs that a topic can have: Kafka's, under Kafka's
// names with Kafka's ranges and defaults, and ours. It is the one table of them: what
// is stored is checked against it, and what acts on a config that a topic does not set
// takes the default from it, so that no two services have another idea of one.
package topicconfig

import "math"

// table has the topic configs that there are. What differs from Kafka says so.
var table = map[string]definition{
	"cleanup.policy":                          {def: "delete", check: policy},
	"compression.gzip.level":                  {def: "-1", check: gzipLevel},
	"compression.lz4.level":                   {def: "9", check: intIn(1, 17)},
	"compression.type":                        {def: "producer", check: oneOf("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")},
	"compression.zstd.level":                  {def: "3", check: intIn(-131072, 22)},
	"delete.retention.ms":                     {def: "86400000", check: intIn(0, math.MaxInt64)},
	"file.delete.delay.ms":                    {def: "60000", check: intIn(0, math.MaxInt64)},
	"flush.messages":                          {def: "9223372036854775807", check: intIn(1, math.MaxInt64)},
	"flush.ms":                                {def: "9223372036854775807", check: intIn(0, math.MaxInt64)},
	"follower.replication.throttled.replicas": {def: "", check: anyText},
	"index.interval.bytes":                    {def: "4096", check: intIn(0, math.MaxInt32)},
	"leader.replication.throttled.replicas":   {def: "", check: anyText},
	// Of both the default, -2, is what the storage node says, and that by default
	// that they are as the topic's retention.
	"local.retention.bytes": {def: "-2", check: intIn(-2, math.MaxInt64)},
	"local.retention.ms":    {def: "-2", check: intIn(-2, math.MaxInt64)},
	"max.compaction.lag.ms": {def: "9223372036854775807", check: intIn(1, math.MaxInt64)},
	// The default is a storage node's --max-message-bytes; this is that one's. Kafka's
	// is 1 MiB and 12 bytes.
	"max.message.bytes":               {def: "8392704", check: intIn(0, math.MaxInt32)},
	"message.timestamp.after.max.ms":  {def: "3600000", check: intIn(0, math.MaxInt64)},
	"message.timestamp.before.max.ms": {def: "9223372036854775807", check: intIn(0, math.MaxInt64)},
	"message.timestamp.type":          {def: "CreateTime", check: oneOf("CreateTime", "LogAppendTime")},
	"min.cleanable.dirty.ratio":       {def: "0.5", check: floatIn(0, 1)},
	"min.compaction.lag.ms":           {def: "0", check: intIn(0, math.MaxInt64)},
	"min.insync.replicas":             {def: "1", check: intIn(1, math.MaxInt32)},
	"preallocate":                     {def: "false", check: boolean},
	"remote.log.copy.disable":         {def: "false", check: boolean},
	"remote.log.delete.on.disable":    {def: "false", check: boolean},
	// Kafka's default is false. Here whoever gives a node cold storage has it used,
	// for all topics that are not compacted and do not say otherwise; without cold
	// storage it means nothing.
	"remote.storage.enable": {def: "true", check: boolean},
	"retention.bytes":       {def: "-1", check: intIn(-1, math.MaxInt64)},
	"retention.ms":          {def: "604800000", check: intIn(-1, math.MaxInt64)},
	// The default is a storage node's --segment-bytes; this is that one's, and Kafka's.
	// Kafka's smallest is 1 MiB.
	"segment.bytes":                  {def: "1073741824", check: intIn(1<<10, math.MaxInt32)},
	"segment.index.bytes":            {def: "10485760", check: intIn(4, math.MaxInt32)},
	"segment.jitter.ms":              {def: "0", check: intIn(0, math.MaxInt64)},
	"segment.ms":                     {def: "604800000", check: intIn(1, math.MaxInt64)},
	"unclean.leader.election.enable": {def: "false", check: boolean},
	// Ours: how a key finds its partition when a batch is built at a door.
	"sluice.key.hash": {def: "fnv1a", check: oneOf("fnv1a", "murmur2")},
}
