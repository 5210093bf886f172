// Package integration holds what needs more than one module: tests of a whole
// server, tests with foreign programs, and benchmarks.
//
//	cluster    a server as a process, within the test, or as separate services beside
//	           an etcd, behind one interface
//	httpapi    a client of the HTTP API for tests
//	kafkapeer  Apache Kafka, the real one
//	usage      CPU time and memory of a process
//	common     what the document promises, on each kind of server
//	chaos      kill -9, torn tails and stray bytes under writers
//	interop    foreign programs that read our files
//	scale      a topic of 10,000 partitions
//	bench      throughput and latency beside the bare disk and Apache Kafka
//
// # Environment
//
//	SLUICE_BINARY         the binary to run; built once for each test package if unset
//	ETCD_BINARY           the etcd beside separate services; likewise
//	SLUICE_REQUIRE_PEERS  1: a missing peer (java, mvn) fails a test instead of skipping it
//	SLUICE_KAFKA_DIR      where Apache Kafka's jars are kept; ~/.cache/sluice/kafka-4.4.0 if unset
//	CHAOS_TIME            how long each chaos test goes on, as "60s"; a few rounds if unset
//	CHAOS_SEED            seed of the random choices; printed by each run
//	CHAOS_KEEP            1: the data directory of a failed chaos test is kept
//	BENCH_OUT             file that gets the benchmarks' table
//
// No functional test is timed: where one waits, it waits for a condition, and
// bounds in time are only there to end a run that hangs.
package integration
