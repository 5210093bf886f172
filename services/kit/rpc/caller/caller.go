// Package caller lets a handler wait for its caller alone. It stands apart from
// package rpc for those who wait and make no calls.
package caller

import "context"

// called is the context of a handler that runs on its caller's goroutine.
type called interface {
	// Caller is the context that the caller made the call with.
	Caller() context.Context
}

// Done is the Done of the context that the caller has, or ctx.Done() if ctx is not
// that of a unary call in process. It is for handlers that wait for what comes in
// any case, also when the connection stops: it costs nothing, where the Done of the
// handler's context has to wait for three ends. A caller over the wire gives up by
// the same channel as the connection.
func Done(ctx context.Context) <-chan struct{} {
	for {
		c, ok := ctx.(called)
		if !ok {
			return ctx.Done()
		}
		ctx = c.Caller()
	}
}
