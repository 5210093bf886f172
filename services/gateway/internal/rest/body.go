package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/kit/errs"
)

const (
	// firstRead is how much of a body is made room for before any of it is
	// there. What a Content-Length says beyond it is believed as bytes come.
	firstRead = 256 << 10
	// bodyTimeout is how long a client may take to send a body.
	bodyTimeout = time.Minute
	// budgetTimeout is how long a request waits for others to leave room.
	budgetTimeout = 2 * time.Second
)

// errBusy is that the bodies under way take all the memory they may.
var errBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of requests are under way").WithRetryAfter(time.Second)

// bodies reads the bodies of requests, each and all together within a limit.
type bodies struct {
	limit  int64
	budget *semaphore.Weighted
}

func newBodies(limit int64, budget *semaphore.Weighted) *bodies {
	return &bodies{limit: limit, budget: budget}
}

// take returns the body of a request, unread.
func (b *bodies) take(w http.ResponseWriter, r *http.Request) *body {
	return &body{
		bodies:  b,
		ctx:     r.Context(),
		control: http.NewResponseController(w),
		source:  http.MaxBytesReader(w, r.Body, b.limit),
		length:  r.ContentLength,
	}
}

// A body is the body of one request. It is read when the decoder asks for it, so
// what is never decoded is never read.
type body struct {
	bodies  *bodies
	ctx     context.Context
	control *http.ResponseController
	source  io.ReadCloser
	// -1 when the sender did not say.
	length int64

	read bool
	data *[]byte
	// Why all failed.
	err error
	// How much of the budget is taken.
	taken int64
}

var _ io.ReadCloser = (*body)(nil)

// Read is for grpc-gateway, which reads what is left after decoding.
func (b *body) Read([]byte) (int, error) { return 0, io.EOF }

// Close closes the request's body.
func (b *body) Close() error { return b.source.Close() }

// all returns the whole body, which is valid until release.
func (b *body) all() ([]byte, error) {
	if !b.read {
		b.read = true
		b.err = b.fill()
	}
	if b.err != nil {
		return nil, b.err
	}
	return *b.data, nil
}

func (b *body) fill() error {
	if b.length > b.bodies.limit {
		return b.tooLarge()
	}
	// Test recorders know no deadlines.
	_ = b.control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = b.control.SetReadDeadline(time.Time{}) }()

	b.data = getBuffer()
	buf := (*b.data)[:0]
	defer func() { *b.data = buf }()
	// One more than there may be, so that the end is seen within the room.
	most := b.bodies.limit + 1
	if b.length >= 0 {
		most = b.length + 1
	}
	for room := min(firstRead, most); ; room = min(2*room, most) {
		if err := b.charge(room); err != nil {
			return err
		}
		if int64(cap(buf)) < room {
			buf = append(make([]byte, 0, room), buf...)
		}
		for int64(len(buf)) < room {
			n, err := b.source.Read(buf[len(buf):room])
			buf = buf[:len(buf)+n]
			switch {
			case err == nil:
			case errors.Is(err, io.EOF):
				return nil
			default:
				return b.readError(err)
			}
		}
		if room == most {
			return b.tooLarge()
		}
	}
}

// charge takes from the budget until room bytes are taken.
func (b *body) charge(room int64) error {
	more := room - b.taken
	if more <= 0 {
		return nil
	}
	if !b.bodies.budget.TryAcquire(more) {
		ctx, cancel := context.WithTimeout(b.ctx, budgetTimeout)
		defer cancel()
		if err := b.bodies.budget.Acquire(ctx, more); err != nil {
			return errBusy
		}
	}
	b.taken = room
	return nil
}

func (b *body) readError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return b.tooLarge()
	}
	return statusError{http.StatusBadRequest, "the body could not be read: it ended early or took too long"}
}

func (b *body) tooLarge() error {
	return tooLargeError(b.bodies.limit)
}

// release gives back what the body took. Nobody may hold bytes of it anymore:
// the backend has copied the records into batches.
func (b *body) release() {
	if b.data != nil {
		putBuffer(b.data)
		b.data = nil
	}
	b.bodies.budget.Release(b.taken)
	b.taken = 0
}
