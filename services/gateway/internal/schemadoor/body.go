package schemadoor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"
)

const (
	// maxBody leaves room for a schema of the greatest length in which every
	// other character is escaped.
	maxBody = 3 << 20
	// maxBodies is how many bodies are held at once, all callers together.
	maxBodies = 32
	// bodyTimeout is how long a client may take to send a body, and so how long
	// slow ones may keep others out.
	bodyTimeout = 10 * time.Second
	// bodiesTimeout is how long a request waits for others to leave room.
	bodiesTimeout = 2 * time.Second
)

// bodies has an element for each body that is held.
type bodies chan struct{}

func (b bodies) enter(ctx context.Context) error {
	select {
	case b <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, bodiesTimeout)
	defer cancel()
	select {
	case b <- struct{}{}:
		return nil
	case <-ctx.Done():
		return failure{http.StatusServiceUnavailable, http.StatusServiceUnavailable, "too many requests are under way"}
	}
}

func (b bodies) leave() { <-b }

// request is the body of all requests that have one.
type request struct {
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType"`
	References []reference `json:"references"`

	Compatibility *string `json:"compatibility"`
	Mode          *string `json:"mode"`
}

type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int32  `json:"version"`
}

// read reads the body of a request, for as long as timeout.
func (b *request) read(w http.ResponseWriter, r *http.Request, timeout time.Duration) error {
	control := http.NewResponseController(w)
	// Test recorders know no deadlines.
	_ = control.SetReadDeadline(time.Now().Add(timeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(b)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return failure{http.StatusRequestEntityTooLarge, http.StatusRequestEntityTooLarge, "the body is larger than " + strconv.Itoa(maxBody) + " bytes"}
	}
	return failure{http.StatusBadRequest, http.StatusBadRequest, unreadable(err)}
}

// unreadable says what is wrong with a body without a word of Go.
func unreadable(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return "the body must be an object, got " + article(wrong.Value)
		}
		return wrong.Field + " must be " + expected(wrong.Type) + ", got " + article(wrong.Value)
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case ok:
		return "malformed JSON at byte " + strconv.FormatInt(syntax.Offset, 10) + ": " + syntax.Error()
	case errors.Is(err, io.EOF):
		return "the body is empty, expected a JSON object"
	default:
		return "the body could not be read: it ended early or took too long"
	}
}

func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Int32:
		return "an integer of 32 bits"
	default:
		return "an object"
	}
}

// article puts an article before what encoding/json calls a value.
func article(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "a boolean"
	default:
		return "a " + value
	}
}
