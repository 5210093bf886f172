// Package binary is a client of Sluice's binary protocol: produce and consume as
// frames over a long-lived connection, for programs that need the throughput.
// docs/binary.md of the repository is the protocol.
//
// There are two clients. A [Client] sends one request at a time and waits for its
// answer. A [Pipelined] sends many before the first is answered, and is what one
// connection carries most with:
//
//	c, err := binary.NewPipelined("127.0.0.1:9001", binary.WithToken(secret))
//	if err != nil { … }
//	defer c.Close()
//	future, err := c.Send(ctx, binary.Produce{Topic: "orders", Records: records})
//	if err != nil { … }
//	placed, err := future.Wait(ctx)
//
// Both connect when they are first used and again when a connection breaks.
//
// # When a connection breaks
//
// Reads and pings are sent again. A produce that was sent and not answered may
// have been written or not, so it is sent again only if that cannot write it
// twice: when it has a producer id and each of its records a sequence. Any other
// fails with an [OutcomeUnknownError], and only the caller can know what to do.
//
// # Errors
//
// A produce that returns no error is on disk. One that returns an
// [OutcomeUnknownError] may be, in whole or in part. Any other error says that
// nothing of it was written:
//
//   - a [ServerError] is what the server refused, and when to try again;
//   - a [HandshakeError] is a connection that the server refused, for its key as a
//     rule: trying again does not help;
//   - a [ConnectError] is that there is no connection, after several attempts;
//   - [ErrInvalid], [ErrClosed] and the error of the context need no server.
//
// A context ends the wait for an answer, not the request once it was sent.
package binary
