// Package grpcdoor is the gRPC door: grpc-go's server behind net/http's HTTP/2, with
// bounds on what all calls together hold of memory.
//
// grpc-go by itself reads a message whole before any of our code runs: the length
// that its head claims is granted to the sender at once, whoever that is, and an
// answer is queued however slowly it is taken. Served through its http.Handler, both
// pass through an io.Reader and an http.ResponseWriter, and so through here:
//
//	headers ── a call more? ── whose key? ── room for its stream ─┐
//	              (calls)       (lobby)          (requests)       │
//	   ┌──────────────────────────────────────────────────────────┘
//	   └─ message, room as bytes arrive ── handler ── room for the answer ── answer
//	              (requests)                               (answers)
//
// Nothing of a message is read for a caller whose key is not good. HTTP/2's flow
// control keeps the rest with the sender: a stream has streamWindow bytes unread at
// most, and that much is taken of the budget before the stream counts as open.
//
// Who waits for a budget looks for a call that holds some of it and whose client has
// stopped, to send or to take, and has that cut off. What stalls for long is cut off
// in any case.
//
// The price is time: a call costs some 30 µs more than with grpc-go's own transport.
package grpcdoor
