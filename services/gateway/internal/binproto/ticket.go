package binproto

import "time"

// A ticket is what is known of a request from the head of its frame on.
type ticket struct {
	id    uint32
	op    opcode
	began time.Time
}
