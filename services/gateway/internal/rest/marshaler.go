package rest

import (
	"context"
	"fmt"
	"io"
	"reflect"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

// marshaler gives grpc-gateway our JSON, for every media type.
type marshaler struct{}

var _ runtime.Marshaler = marshaler{}

// An answer is a message on its way out.
type answer struct {
	ctx      context.Context
	exchange *exchange
	message  proto.Message
}

// selected is a response of which grpc-gateway shows one field alone
// (response_body).
type selected interface{ XXX_ResponseBody() any }

// ContentType is JSON, always.
func (marshaler) ContentType(any) string { return "application/json" }

// Marshal encodes an answer into a buffer that the exchange gives back.
func (marshaler) Marshal(v any) ([]byte, error) {
	a, ok := v.(answer)
	if !ok {
		return nil, fmt.Errorf("%T is no answer", v)
	}
	m := a.message
	if s, ok := m.(selected); ok {
		if m, ok = s.XXX_ResponseBody().(proto.Message); !ok {
			return nil, fmt.Errorf("the body of %T is no message", a.message)
		}
	}
	a.exchange.out = getBuffer()
	out, err := apijson.Append(*a.exchange.out, m, a.exchange.style)
	if err != nil {
		return nil, err
	}
	*a.exchange.out = out
	return out, a.exchange.claim.settle(a.ctx, int64(len(out)))
}

// Unmarshal decodes a body.
func (marshaler) Unmarshal(data []byte, v any) error {
	m, err := target(v)
	if err != nil {
		return err
	}
	return apijson.Unmarshal(data, m)
}

// NewDecoder decodes the body of an exchange.
func (m marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		if !ok {
			return fmt.Errorf("%T is no body", r)
		}
		data, err := b.all()
		if err != nil {
			return err
		}
		return m.Unmarshal(data, v)
	})
}

// NewEncoder is for streams, of which there are none.
func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// target returns the message that a body goes to: v itself, or, where the body
// is one field of the request, a new message that v points to.
func target(v any) (proto.Message, error) {
	if m, ok := v.(proto.Message); ok {
		return m, nil
	}
	field := reflect.ValueOf(v)
	if field.Kind() == reflect.Pointer && field.Elem().Kind() == reflect.Pointer {
		field.Elem().Set(reflect.New(field.Elem().Type().Elem()))
		if m, ok := field.Elem().Interface().(proto.Message); ok {
			return m, nil
		}
	}
	return nil, fmt.Errorf("a body cannot become a %T", v)
}
