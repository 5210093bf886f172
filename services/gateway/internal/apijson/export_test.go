package apijson

import "google.golang.org/protobuf/proto"

// The reflective codec, which stands back for the messages with a codec of their
// own.

// UnmarshalReflective is Unmarshal without the codecs written by hand.
func UnmarshalReflective(data []byte, m proto.Message) error { return unmarshalAny(data, m) }

// AppendReflective is Append without the codecs written by hand.
func AppendReflective(dst []byte, m proto.Message, style Style) ([]byte, error) {
	return appendMessage(dst, m.ProtoReflect(), style)
}
