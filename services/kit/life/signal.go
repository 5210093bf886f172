package life

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// exitInterrupted is what a shell reports of a process ended by SIGINT.
const exitInterrupted = 128 + int(syscall.SIGINT)

// SignalContext returns a context that ends with the first SIGINT or SIGTERM,
// which is the wish for a clean stop. The second exits the process at once, for
// whoever does not want to wait for it. Call stop to give the signals back.
func SignalContext(parent context.Context) (ctx context.Context, stop func()) {
	return signalContext(parent, os.Exit) //nolint:forbidigo // the second signal is the wish not to wait for returns
}

func signalContext(parent context.Context, exit func(int)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	stopped := make(chan struct{})
	ended := make(chan struct{})
	next := func() bool {
		select {
		case <-stopped:
			return false
		case <-signals:
			return true
		}
	}
	go func() {
		defer close(ended)
		if !next() {
			return
		}
		cancel()
		if next() {
			exit(exitInterrupted)
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(stopped)
		<-ended
		cancel()
	})
}
