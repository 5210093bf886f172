// Package errs has the errors that cross service boundaries.
//
// An [Error] has a [Kind], which is its gRPC code; a reason in upper case, which
// names the condition for programs and never changes; a message for people; and
// metadata for programs that act on it ("not leader" names the leader). On the
// wire it is a gRPC status:
//
//	code     NotFound
//	message  topic "orders" does not exist
//	details  ErrorInfo{domain: "sluice", reason: "TOPIC_NOT_FOUND", metadata: {"topic": "orders"}}
//	         RetryInfo{retry_delay}, with WithRetryAfter
//
// and [FromStatus] makes the same error of that again, so errors.Is with a
// sentinel works on both sides of a connection:
//
//	var ErrTopicNotFound = errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "topic does not exist")
//
//	return errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "topic %q does not exist", name)
//
// What leaves a process passes through [Mask] once, in the server's interceptor:
// errors of this package go out as their authors wrote them, everything else as
// "internal error (id …)" with its text in the log under that id.
package errs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the domain of every ErrorInfo of ours. It is on the wire: never
// change it.
const Domain = "sluice"

// Error is an error with a kind and a reason. It is immutable; the With methods
// return copies, so a sentinel may be the start of one.
type Error struct {
	kind Kind
	// reason is empty only for a status that was made by somebody else.
	reason   string
	message  string
	metadata map[string]string
	// retryAfter is 0 when nothing is said about it.
	retryAfter time.Duration
	// cause is for errors.Is and for the log; it never goes on the wire.
	cause error
	// foreign is the status that came in when it is not one of ours; it goes
	// out again as it was.
	foreign *status.Status
}

// New returns an error. The message goes to the caller as it is; what only the
// log may see belongs into [Error.Because].
func New(kind Kind, reason, format string, args ...any) *Error {
	return &Error{kind: kind, reason: reason, message: text(fmt.Sprintf(format, args...))}
}

// text replaces what is not UTF-8: a status with such a byte cannot be
// marshalled, and the caller would get neither reason nor message.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// With returns a copy with a pair of metadata, which goes to the caller.
func (e *Error) With(key, value string) *Error {
	c := *e
	c.metadata = maps.Clone(e.metadata)
	if c.metadata == nil {
		c.metadata = make(map[string]string, 1)
	}
	c.metadata[key] = text(value)
	return &c
}

// WithMessage returns a copy with another message: a sentinel with a subject.
func (e *Error) WithMessage(format string, args ...any) *Error {
	c := *e
	c.message = text(fmt.Sprintf(format, args...))
	return &c
}

// WithRetryAfter returns a copy that tells the caller how long to wait.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.retryAfter = d
	return &c
}

// Because returns a copy that wraps cause. The log and errors.Is see it, the
// caller does not.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Kind returns the error's kind.
func (e *Error) Kind() Kind { return e.kind }

// Reason returns the error's reason; empty when it came from a status without
// one.
func (e *Error) Reason() string { return e.reason }

// Message returns what the caller is told.
func (e *Error) Message() string { return e.message }

// Metadata returns the value of a pair, empty when there is none.
func (e *Error) Metadata(key string) string { return e.metadata[key] }

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.message
	}
	return e.message + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is says whether target is an Error of the same kind and reason. An error
// without a reason is only itself. Canceled and DeadlineExceeded are also the
// errors of package context, since that is what they were before the wire.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.kind == Canceled
	case context.DeadlineExceeded:
		return e.kind == DeadlineExceeded
	}
	t, ok := target.(*Error)
	return ok && t.reason != "" && t.reason == e.reason && t.kind == e.kind
}

// GRPCStatus returns the error as it goes on the wire.
func (e *Error) GRPCStatus() *status.Status {
	if e.foreign != nil {
		return e.foreign
	}
	st := status.New(codes.Code(e.kind), e.message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: Domain, Reason: e.reason, Metadata: e.metadata}}
	if e.retryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.retryAfter)})
	}
	detailed, err := st.WithDetails(details...)
	if err != nil {
		// A reason that is not UTF-8; all else has been through text.
		return st
	}
	return detailed
}

// From returns the first Error in err's chain, or one made of the first gRPC
// status in it.
func From(err error) (*Error, bool) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e, true
	}
	if s, ok := errors.AsType[grpcStatus](err); ok && s.GRPCStatus().Code() != codes.OK {
		return fromStatus(s.GRPCStatus()), true
	}
	return nil, false
}

type grpcStatus interface {
	error
	GRPCStatus() *status.Status
}

// FromStatus makes an [Error] of the error of a gRPC call. Nil, io.EOF and
// whatever else carries no status are returned as they are.
func FromStatus(err error) error {
	if e, ok := From(err); ok {
		return e
	}
	return err
}

func fromStatus(st *status.Status) *Error {
	e := &Error{kind: Kind(st.Code()), message: st.Message()}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				e.reason, e.metadata = d.GetReason(), d.GetMetadata()
			}
		case *errdetails.RetryInfo:
			e.retryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	if e.reason == "" {
		e.foreign = st
	}
	return e
}

// KindOf returns the kind of err: that of an Error or status in its chain, that
// of a context's error, else Internal. It must not be called with nil.
func KindOf(err error) Kind {
	if e, ok := From(err); ok {
		return e.kind
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	return Internal
}

// Reason returns the reason of the Error or status in err's chain, else "".
func Reason(err error) string {
	if e, ok := From(err); ok {
		return e.reason
	}
	return ""
}

// RetryAfter returns how long the caller should wait, when err says so.
func RetryAfter(err error) (time.Duration, bool) {
	if e, ok := From(err); ok && e.retryAfter > 0 {
		return e.retryAfter, true
	}
	return 0, false
}
