// Package rpc is how services call each other: over TCP, and within one process
// without a socket and without serialising.
//
// A service sees one interface, [Dialer]. [TCP] gives cached connections by
// address; [LocalFirst] gives the in-process [Local] for the node itself. What
// is registered on a [Server] and on a Local is the same, and so is what happens
// around a handler:
//
//	client ── span ── wire or none ── span ── guard ── interceptors ── handler
//	                                          │
//	                   panics and errors that may not leave become
//	                   "internal error (id …)", see errs.Mask
//
// Errors arrive as *errs.Error on both kinds of connection.
//
// # Rules that only the wire enforces
//
// A call on Local runs on the caller's goroutine, and messages are handed over
// as they are. So:
//
//   - A message that was sent, in either direction, and the bytes in it are never
//     changed and never go back to a pool. Whoever wants to change what it got
//     copies first.
//   - Handlers return when their context ends; nobody else can return for them.
//   - Metadata is the only thing that passes beside the message: the caller's
//     context values are hidden from the handler.
//
// With the build tag invariants, and under the race detector, every message is
// marshalled and back, and a broken first rule is a panic.
package rpc
