package rest

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

// An exchange is what is known of one request while grpc-gateway works on it.
// It is used by one goroutine at a time.
type exchange struct {
	route *route
	// The variables of the path, unescaped.
	params map[string]string
	style  apijson.Style
	// Nil when the route takes none.
	body *body
	// The encoded answer; back to the pool at the end.
	out *[]byte
	// The memory of the answer.
	claim claim
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request that the door let through.
func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange)
}

// failure returns the error that a failed request is answered with. An error in
// reading the body has lost its type on the way through grpc-gateway.
func (x *exchange) failure(err error) error {
	if x.body != nil && x.body.err != nil {
		var refused *apijson.Error
		if !errors.As(x.body.err, &refused) {
			return x.body.err
		}
	}
	return err
}

// release ends the exchange: nothing reads the request or the answer anymore.
func (x *exchange) release() {
	if x.body != nil {
		x.body.release()
	}
	if x.out != nil {
		putBuffer(x.out)
	}
	x.claim.release()
}

// Buffers go back to the pool unless they are larger than this, so that a few
// large requests do not hold on to memory.
const maxPooled = 2 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// An answerWriter puts the success status of a route in the place of 200.
type answerWriter struct {
	http.ResponseWriter
	success int
	wrote   bool
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status.
func (w *answerWriter) WriteHeader(status int) {
	w.wrote = true
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the body of an answer; that of a 204 is dropped.
func (w *answerWriter) Write(b []byte) (int, error) {
	if w.wrote {
		return w.ResponseWriter.Write(b)
	}
	if w.success == http.StatusNoContent {
		w.Header().Del("Content-Type")
		w.Header().Del("Content-Length")
		w.WriteHeader(w.success)
		return len(b), nil
	}
	w.WriteHeader(w.success)
	return w.ResponseWriter.Write(b)
}
