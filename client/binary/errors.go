package binary

import (
	"errors"
	"fmt"
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

// ServerError is a request that the server refused. Nothing of it was written,
// unless the message says otherwise.
type ServerError struct {
	// Message is the server's.
	Message string
}

// Error returns the message.
func (e *ServerError) Error() string { return e.Message }

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

// ConnectError is that no connection could be made. Nothing was sent.
type ConnectError struct {
	Address string
	Err     error
}

// Error returns the address and the cause.
func (e *ConnectError) Error() string { return fmt.Sprintf("connect to %s: %v", e.Address, e.Err) }

// Unwrap returns the cause of the last attempt.
func (e *ConnectError) Unwrap() error { return e.Err }

// OutcomeUnknownError is a produce that was sent and not answered: its records
// may have been written or not.
type OutcomeUnknownError struct {
	Topic   string
	Records int
	Err     error
}

// Error returns what is unknown and the cause.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("%d records for topic %q may or may not have been written: %v", e.Records, e.Topic, e.Err)
}

// Unwrap returns why there was no answer.
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }
