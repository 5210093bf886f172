package grpcdoor

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A request is the message of a call as grpc-go reads it, which is decoded once it is
// whole and there is room for what it becomes.
type request struct{ bytes mem.Buffer }

// unmarshal keeps the bytes.
func (r *request) unmarshal(data mem.BufferSlice) {
	r.bytes = data.MaterializeToBuffer(mem.DefaultBufferPool())
}

// decode makes a message of a request, and has the call hold what that takes.
func (c *call) decode(r *request, m proto.Message) error {
	defer r.bytes.Free()
	most := c.door.cfg.MaxElements
	elements := c.door.shapeOf(m.ProtoReflect().Descriptor()).count(r.bytes.ReadOnlyData(), most)
	if elements > most {
		return errTooManyElements.WithMessage("the message has more than %d elements", most)
	}
	kept := c.messages.arrived
	if c.messages.compressed {
		kept = int64(c.door.cfg.MaxMessageBytes)
	}
	kept += c.headers + int64(elements)*besideElement
	if err := c.grow(kept); err != nil {
		return err
	}
	c.receiving.End()
	if err := proto.Unmarshal(r.bytes.ReadOnlyData(), m); err != nil {
		return errMalformed.Because(err)
	}
	c.request.Shrink(kept)
	return nil
}
