package rpc

import (
	"bytes"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/invariant"
)

// handOver makes dst the same message as src without copying what is in it: they
// share bytes, lists, maps and inner messages afterwards.
//
// Assigning the structs would copy the size cache and the lock that protobuf keeps
// beside the fields, which is a data race when another receiver marshals the same
// message; see plain for what is assigned instead.
func handOver(dst, src any) error {
	if invariant.Enabled || !assign(dst, src) {
		return handOverAny(dst, src)
	}
	return nil
}

// assign is handOver of plain messages of one type; for others, and for a nil
// message, which is an empty one without fields, it returns false.
func assign(dst, src any) bool {
	from, to := reflect.ValueOf(src), reflect.ValueOf(dst)
	if !from.IsValid() || !to.IsValid() || from.Type() != to.Type() {
		return false
	}
	p := plainOf(from.Type())
	return p != nil && !from.IsNil() && !to.IsNil() && p.assign(to.Elem(), from.Elem())
}

// handOverAny is handOver by reflection over the messages.
func handOverAny(dst, src any) error {
	to, ok := dst.(proto.Message)
	if !ok {
		return notAMessage(dst)
	}
	from, ok := src.(proto.Message)
	if !ok {
		return notAMessage(src)
	}
	source, target := from.ProtoReflect(), to.ProtoReflect()
	if invariant.Enabled || source.Type() != target.Type() {
		encoded, err := encode(from)
		if err != nil {
			return err
		}
		return decode(encoded, to)
	}
	proto.Reset(to)
	source.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		target.Set(field, value)
		return true
	})
	target.SetUnknown(source.GetUnknown())
	return nil
}

// sent is a message on its way through a stream. In a test build it remembers
// what was sent, to find out who changes a message afterwards.
type sent struct {
	message any
	encoded []byte
}

func send(message any) (sent, error) {
	s := sent{message: message}
	if invariant.Enabled {
		m, ok := message.(proto.Message)
		if !ok {
			return sent{}, notAMessage(message)
		}
		var err error
		if s.encoded, err = encode(m); err != nil {
			return sent{}, err
		}
	}
	return s, nil
}

func (s sent) receive(dst any) error {
	if invariant.Enabled {
		unchanged(s.message, s.encoded)
	}
	return handOver(dst, s.message)
}

// unchanged panics in a test build when a message is no longer what it was.
func unchanged(message any, encoded []byte) {
	now, err := encode(message.(proto.Message))
	invariant.Checkf(err == nil && bytes.Equal(encoded, now), "a %T was changed after it was sent", message)
}

func encode(m proto.Message) ([]byte, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, errs.New(errs.Internal, "NOT_MARSHALLED", "marshal %T", m).Because(err)
	}
	return encoded, nil
}

func decode(encoded []byte, m proto.Message) error {
	if err := proto.Unmarshal(encoded, m); err != nil {
		return errs.New(errs.Internal, "NOT_UNMARSHALLED", "unmarshal %T", m).Because(err)
	}
	return nil
}

func notAMessage(m any) error {
	return fmt.Errorf("%T is no protobuf message", m)
}
