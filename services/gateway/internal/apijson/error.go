package apijson

import (
	"errors"
	"fmt"
)

// An Error is why a body was refused. Its text is meant for the sender.
type Error struct {
	// Path of the value in the body, as in "records[2].partition"; empty when
	// the body as a whole or its syntax is at fault.
	Path string
	// What is wrong, to be read after the path.
	Reason string

	// The body is no JSON, so a path would tell nothing.
	syntax bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + " " + e.Reason
}

// within returns err with a step put before its path.
func within(step string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.syntax {
		return err
	}
	switch {
	case e.Path == "":
		e.Path = step
	case e.Path[0] == '[':
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
	return e
}

func (s *scanner) malformed(format string, args ...any) error {
	return &Error{
		Reason: fmt.Sprintf("malformed JSON at byte %d: %s", s.pos, fmt.Sprintf(format, args...)),
		syntax: true,
	}
}

// mismatch says that the value at the cursor is not of the wanted kind.
func (s *scanner) mismatch(want string) error {
	var got string
	switch c := s.peek(); {
	case c == '"':
		got = "a string"
	case c == '{':
		got = "an object"
	case c == '[':
		got = "a list"
	case s.startsWith("true"), s.startsWith("false"):
		got = "a boolean"
	case s.startsWith("null"):
		got = "null"
	case c == '-' || c >= '0' && c <= '9':
		got = "a number"
	default:
		return s.unexpected("a value")
	}
	if s.depth == 0 {
		return &Error{Reason: "the body must be " + want + ", got " + got}
	}
	return &Error{Reason: "must be " + want + ", got " + got}
}

// unexpected says that something else was expected at the cursor.
func (s *scanner) unexpected(want string) error {
	if s.pos >= len(s.data) {
		return s.malformed("expected %s, got the end of the body", want)
	}
	return s.malformed("expected %s, got %q", want, s.data[s.pos])
}

func tooMany(i int) error {
	if i < MaxElements {
		return nil
	}
	return &Error{Reason: fmt.Sprintf("has more than %d elements", MaxElements)}
}
