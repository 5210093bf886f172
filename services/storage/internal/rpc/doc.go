// Package rpc is the storage node's gRPC face: it decodes, calls the node and
// maps errors. No rule lives here.
package rpc
