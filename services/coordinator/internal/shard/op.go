package shard

import (
	"context"
	"sync/atomic"
)

// op is a read or a write that waits in a shard's queue.
type op[M Machine] struct {
	// write returns the records of a write; nil for a read.
	write func(M) ([]Record, error)
	read  func(M) error

	// state goes from queued to either started or abandoned, once.
	state atomic.Int32
	// evaluated is closed when the closures above will not run any more.
	evaluated chan struct{}
	// done receives the answer; it has room for it.
	done chan error
}

const (
	opQueued int32 = iota
	opStarted
	opAbandoned
)

func newOp[M Machine]() *op[M] {
	return &op[M]{evaluated: make(chan struct{}), done: make(chan error, 1)}
}

// start claims the op for evaluation; false when the caller has gone.
func (o *op[M]) start() bool { return o.state.CompareAndSwap(opQueued, opStarted) }

// wait returns the answer, or ctx's error as soon as the op's closure cannot
// touch the caller's variables any more.
func (o *op[M]) wait(ctx context.Context) error {
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if o.state.CompareAndSwap(opQueued, opAbandoned) {
		return ctx.Err()
	}
	select {
	case err := <-o.done:
		return err
	case <-o.evaluated:
		return ctx.Err()
	}
}

// answer ends the op.
func (o *op[M]) answer(err error) { o.done <- err }

// lose ends an op that nobody is at any more, if it is not answered.
func (o *op[M]) lose() {
	err := error(ErrUnknownOutcome)
	if o.start() {
		err = ErrUnavailable
	}
	select {
	case o.done <- err:
	default:
	}
}
