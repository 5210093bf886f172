// Package binproto is the door of the binary protocol: length-prefixed frames
// over a long-lived connection. All numbers are big endian. docs/binary.md is the
// protocol for people; this is what the code relies on.
//
// A connection begins with one message from each side:
//
//	client  "ES01"  features u32  token_len u32 (at most 1024)  token
//	server  "ES01"  status u8  features u32  msg_len u32  msg
//
// and then carries frames, those of the client with the opcodes 0x01 to 0x03 and
// those of the server with 0x81 to 0x83 and 0xFF:
//
//	length u32  request_id u32  opcode u8  payload
//	            └───────── length bytes ─────────┘
//
// With gzip negotiated every payload is a gzip stream of its own, an empty one
// too.
//
// # A frame on its way
//
// One goroutine reads a connection, and it is all that an idle one costs: buffers
// are borrowed when bytes arrive. It takes one of 32 slots before it looks at a
// frame, so the 33rd request waits in the socket. Of a frame it reads the topic
// first, which is bounded, and asks whether the key may: of a request that is
// refused no more is read into memory, and none of it is inflated. Only then does
// it make room, as bytes arrive and not as the length claims, out of a budget
// that all connections share. When that is used up, those who hold some of it and
// have stopped sending, or taking answers, are hung up on.
//
// A request then runs on a goroutine of its own. Produces to one topic stand in a
// line, and those that wait while one is written are written together. Whoever
// has an answer while nobody writes to the socket writes it, and what others
// queue meanwhile: there is no writer to keep.
//
// # What is trusted
//
// A frame whose length can be right gets an error frame whatever is in it, and
// the connection goes on after it. A frame that is too short or too large ends
// the connection, after an error frame that says so. So does a key that was
// revoked: it is asked for again at every frame, when its topic is there and when
// all of it is, and once more before a produce that stood in line is written.
package binproto
