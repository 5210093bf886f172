// Package kafkapeer is Apache Kafka as it is published: its jars from Maven,
// a broker as one java process on loopback, and its tools.
package kafkapeer
