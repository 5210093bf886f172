package binary

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrClosed is that the client was closed.
	ErrClosed = errors.New("binary: the client is closed")
	// ErrInvalid is that a request cannot be put into a frame. Nothing was sent.
	ErrInvalid = errors.New("binary: invalid request")
	// ErrMalformed is that the server sent what the protocol does not know. The
	// connection is given up.
	ErrMalformed = errors.New("binary: malformed answer")
)

// ServerError is a request that the server refused. Nothing of it was written: what
// leaves that open is an *OutcomeUnknownError, with a ServerError as its cause.
type ServerError struct {
	// Message is the server's.
	Message string
	// RetryAfter is when to try again, if the server says so; 0 when it does not.
	RetryAfter time.Duration
}

// Error returns the message.
func (e *ServerError) Error() string { return e.Message }

// The protocol has no codes for errors. These forms of messages are part of it.
const (
	retryPrefix, retrySuffix = " (retry after ", ")"
	unknownPrefix            = "the outcome is unknown"
	internalPrefix           = "internal error"
	partlySuffix             = " partitions were written)"
)

func serverError(message string) *ServerError {
	e := &ServerError{Message: message}
	if rest, ok := strings.CutSuffix(message, retrySuffix); ok {
		if at := strings.LastIndex(rest, retryPrefix); at >= 0 {
			if after, err := time.ParseDuration(rest[at+len(retryPrefix):]); err == nil && after > 0 {
				e.RetryAfter = after
			}
		}
	}
	return e
}

// ambiguous says that the server does not know, or that only a part of the request
// was written.
func (e *ServerError) ambiguous() bool {
	message := e.Message
	if e.RetryAfter > 0 {
		message = message[:strings.LastIndex(message, retryPrefix)]
	}
	return strings.HasPrefix(message, unknownPrefix) || strings.HasPrefix(message, internalPrefix) ||
		strings.HasSuffix(message, partlySuffix)
}

// A Status is how a handshake ended.
type Status uint8

// The statuses of a handshake.
const (
	StatusOK           Status = 0
	StatusBadMagic     Status = 1
	StatusAuthFailed   Status = 2
	StatusAuthRequired Status = 3
)

// HandshakeError is a connection that the server refused. Connecting again does
// not help.
type HandshakeError struct {
	Status  Status
	Message string
}

// Error returns what was refused and why.
func (e *HandshakeError) Error() string {
	what := "refused"
	switch e.Status {
	case StatusBadMagic:
		what = "another protocol"
	case StatusAuthFailed:
		what = "authentication failed"
	case StatusAuthRequired:
		what = "authentication required"
	}
	if e.Message == "" {
		return fmt.Sprintf("handshake: %s (status %d)", what, e.Status)
	}
	return fmt.Sprintf("handshake: %s: %s", what, e.Message)
}

// ConnectError is that no connection could be made, as often as was tried. Nothing
// was sent.
type ConnectError struct {
	Address string
	Err     error
}

// Error returns the address and the cause.
func (e *ConnectError) Error() string { return fmt.Sprintf("connect to %s: %v", e.Address, e.Err) }

// Unwrap returns the cause of the last attempt.
func (e *ConnectError) Unwrap() error { return e.Err }

// OutcomeUnknownError is a produce of which nobody can tell what became: it was
// sent and not answered, or the server does not know either. All of its records may
// have been written, none, or those for some partitions. A produce ends in one of
// three ways: written, not written (any other error), or this.
type OutcomeUnknownError struct {
	Topic   string
	Records int
	Err     error
}

// Error returns what is unknown and the cause.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("%d records for topic %q may or may not have been written: %v", e.Records, e.Topic, e.Err)
}

// Unwrap returns why it is not known.
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }
