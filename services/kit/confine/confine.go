// Package confine keeps a panic from ending more than it has to.
//
// A panic that nobody recovers ends the process, whichever goroutine it is in, and a
// node has goroutines for thousands of connections, partitions and other nodes. So
// each goroutine of a service is started by something that says what a panic in it
// ends:
//
//	what runs on the goroutine                        a panic ends              by
//	-----------------------------------------------   -----------------------   --------------
//	a try of a loop that tries again: a stream,       the try; the next comes   Attempt
//	  a watch, a pass, a term of office               after the loop's pause
//	one connection or request, a chore                that one                  Go
//	a part of a request, beside others                the request               Fan
//	something whose end is waited for                 what it fails with        Catch, Async
//	a member of a service: it has state that nobody   the service, in order,    life.Group
//	  else has, and nothing to begin it anew from     and with it the process
//
// A loop whose tries begin from nothing (a snapshot, a fresh stream) goes on, since
// what the panic left is not used again. A member of a service that keeps state from
// one step to the next does not: half a step may have been done, and what a restart of
// the process reads from disk and etcd is known to be good.
//
// Locks are given back by defer wherever code that may panic runs under them; else
// going on would mean to wait for ever.
//
// tools/lint refuses goroutines that are started in other ways.
package confine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// Error is a panic as an error. Its text has the stack, so it is for the log;
// errs.Mask keeps it there.
type Error struct {
	value any
	stack []byte
}

// Error returns what was panicked with, and the stack.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// Unwrap returns what was panicked with if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// Recovered makes an error of what recover returned, in the function that was
// deferred. A panic that was an Error already stays as it is.
func Recovered(value any) *Error {
	if e, ok := value.(*Error); ok {
		return e
	}
	return &Error{value, debug.Stack()}
}

// Catch calls f. A panic in it is its error, an *Error.
func Catch(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = Recovered(value)
		}
	}()
	return f()
}

// Attempt is Catch for a try of a loop that tries again and says little of failures:
// a panic is logged with its stack under an id, and the error names the id.
func Attempt(ctx context.Context, logger *slog.Logger, f func() error) error {
	err := Catch(f)
	if p, ok := err.(*Error); ok {
		return errs.Mask(ctx, logger, p)
	}
	return err
}

// Go calls f on a goroutine that wg counts. A panic in it is logged with its stack
// under an id. lost, which may be nil, is called then, on the same goroutine: it tells
// whoever waits for f.
func Go(wg *sync.WaitGroup, logger *slog.Logger, lost func(error), f func()) {
	wg.Go(func() {
		err := Attempt(context.Background(), logger, func() error {
			f()
			return nil
		})
		if err != nil && lost != nil {
			lost(err)
		}
	})
}

// Async calls f on a goroutine and sends what it returns; a panic in it is its error.
func Async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- Catch(f) }()
	return done
}
