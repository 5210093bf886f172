// Package grpcdoor is the gRPC door: grpc-go's server, with bounds on what all calls
// together hold of memory.
//
// grpc-go by itself grants the sender of a message the length that its head claims,
// whoever that is, keeps what comes until the message is whole, and queues answers
// however slowly they are taken. So the door stands in three places around it:
//
//	socket ── frame ── room for it? ── grpc-go ── handler ── answer ── grpc-go ── socket
//	          (conn)    (requests)      (tap)     (bind)    (answers)            (conn)
//
// A conn is the socket as grpc-go reads it. It gives a frame of data when there is room
// for it among the requests, and does not read on before: TCP keeps the rest with the
// sender. It also sees on either way which streams end, and so when grpc-go has let go
// of what it kept of a call.
//
// The tap sees the headers of a call first. A call whose caller is known takes what may
// come unread, its arrival, of the requests; others take it of the lobby, or are
// refused. Its handler runs at once and finds out who calls before it has grpc-go read
// the message: until then a client may send no more than the stream's window. Once a
// call has failed what still comes of it is given to grpc-go as of a stream that there
// is not, which drops it.
//
// A message is decoded when it is whole: its elements are counted, since an empty one
// of two bytes becomes a hundred, and what they become takes its room before.
//
// An answer takes its room before anything is done, and is given to grpc-go in pieces
// that tell when they are written or dropped.
//
// Who waits for a budget looks for who holds some of it and has stopped, to send or to
// take. A message that has stopped ends its call; an answer that is not taken, or a
// socket that takes nothing, ends the connection, since grpc-go lets go of an answer in
// no other way. What stalls for long is ended in any case.
package grpcdoor
