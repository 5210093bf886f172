package grpcdoor

import "net/http"

// writePiece is how much of an answer is given to HTTP/2 at a time: what a client has
// to take, or it stalls.
const writePiece = 64 << 10

// An answer is what grpc-go writes to. It knows when a client does not take it.
type answer struct {
	http.ResponseWriter
	call *call
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write sends bytes, and returns when they are in the client's window.
func (a *answer) Write(b []byte) (n int, err error) {
	defer a.call.sending.End()
	for len(b) > 0 {
		a.call.sending.Begin()
		more, err := a.ResponseWriter.Write(b[:min(len(b), writePiece)])
		n += more
		if err != nil {
			return n, err
		}
		b = b[more:]
	}
	return n, nil
}

// Flush sends what is written so far.
func (a *answer) Flush() {
	a.call.sending.Begin()
	defer a.call.sending.End()
	a.ResponseWriter.(http.Flusher).Flush()
}
