package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

// InProcess is a server within the test process: under the race detector and
// with the assertions of test builds, if the test has them.
type InProcess struct {
	doors
	args    []string
	dataDir string
	log     tail

	// Nil while it does not run.
	stop  context.CancelFunc
	ended chan struct{}
	// err is valid once ended is closed.
	err error
}

var _ Server = (*InProcess)(nil)

// NewInProcess sets up a server, which ends with the test. It starts none.
func NewInProcess(t testing.TB, o Options) *InProcess {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = filepath.Join(t.TempDir(), "data")
	}
	s := &InProcess{dataDir: o.DataDir, doors: newDoors(t, o)}
	s.args = serveFlags(s, o)
	own(t, s)
	return s
}

// Start starts the server and waits until it is ready.
func (s *InProcess) Start(ctx context.Context) error {
	if s.stop != nil {
		return errRuns
	}
	cfg := sluice.NewConfig(sluice.AllRoles()...)
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	cfg.RegisterFlags(flags)
	if err := flags.Parse(s.args); err != nil {
		return err
	}
	node, err := sluice.New(ctx, *cfg, sluice.Deps{Logger: obs.NewLogger(cfg.Obs, &s.log), Registry: obs.NewRegistry()})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan struct{})
	s.stop, s.ended = stop, ended
	go func() {
		defer close(ended)
		s.err = node.Run(running, func() { close(ready) })
	}()
	select {
	case <-ready:
		return nil
	case <-ended:
		return fmt.Errorf("start: the server ended: %w\n%s", s.Stop(), s.Log())
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("start: not ready: %w", ctx.Err()), s.Stop())
	}
}

// Stop stops the server and waits until it has stopped.
func (s *InProcess) Stop() error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	<-s.ended
	s.stop = nil
	return s.err
}

// DataDir is the data directory.
func (s *InProcess) DataDir() string { return s.dataDir }

// Log is the end of what the server has logged.
func (s *InProcess) Log() string { return s.log.String() }
