// Package conformance tests a server of the HTTP and binary document with bytes
// of its own, through no client of ours. It runs against a server of this
// repository, or against any other:
//
//	CONFORMANCE_HTTP=http://127.0.0.1:9000 CONFORMANCE_BINARY=127.0.0.1:9001 \
//	CONFORMANCE_TOKEN=esk_… go test ./integration/conformance
//
// The token is that of an administrator, and is left out where none is needed. The
// tests make topics with names of their own and leave them.
package conformance
