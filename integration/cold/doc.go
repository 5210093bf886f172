// Package cold tests cold storage on an S3 server that is not ours, reached
// directly and through a proxy that is slow, refuses, or dies half way.
//
// `make cold` builds the server, pinned, and runs it.
package cold
