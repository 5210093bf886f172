// Package client is the root of a general-purpose Kafka client library for Go.
// It is layered, each package on those before it: conn, batch, meta, then
// admin, read and produce, then consume. It depends on no other module of this
// repository.
package client
