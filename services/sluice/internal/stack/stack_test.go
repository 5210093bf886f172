package stack

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// journal notes what happens, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// part notes its start and its stop; it is ready after a few questions.
func (j *journal) part(name string, end <-chan error) Part {
	started := make(chan struct{})
	asked := 0
	return Part{
		Name: name,
		Run: func(ctx context.Context) error {
			j.add("start " + name)
			close(started)
			select {
			case <-ctx.Done():
				j.add("stop " + name)
				return ctx.Err()
			case err := <-end:
				j.add("end " + name)
				return err
			}
		},
		Ready: func() error {
			select {
			case <-started:
			default:
				return errors.New("not started")
			}
			if asked++; asked < 3 {
				return errors.New("not ready")
			}
			return nil
		},
	}
}

func TestPartsStopInReverse(t *testing.T) {
	j := &journal{}
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, []Part{j.part("etcd", nil), j.part("storage", nil), j.part("gateway", nil)}, func() {
		j.add("ready")
		cancel()
	}, quiet)
	require.NoError(t, err)
	require.Equal(t, []string{
		"start etcd", "start storage", "start gateway", "ready", "stop gateway", "stop storage", "stop etcd",
	}, j.entries)
}

func TestAPartThatFailsTakesTheOthersDown(t *testing.T) {
	for _, test := range []struct {
		name string
		with error
		says string
	}{
		{"fails", errors.New("disk full"), "storage: disk full"},
		{"ends", nil, "storage ended by itself"},
		{"ends as if it had been stopped", context.Canceled, "storage: context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := &journal{}
			end := make(chan error)
			err := Run(t.Context(), []Part{j.part("etcd", nil), j.part("storage", end), j.part("gateway", nil)}, func() {
				end <- test.with
			}, quiet)
			require.EqualError(t, err, test.says)
			require.Equal(t, []string{
				"start etcd", "start storage", "start gateway", "end storage", "stop gateway", "stop etcd",
			}, j.entries)
		})
	}
}

func TestAPartThatNeverGetsReady(t *testing.T) {
	j := &journal{}
	end := make(chan error, 1)
	end <- errors.New("port in use")
	never := j.part("storage", end)
	never.Ready = func() error { return errors.New("not ready") }
	err := Run(t.Context(), []Part{j.part("etcd", nil), never, j.part("gateway", nil)}, func() {
		j.add("ready")
	}, quiet)
	require.EqualError(t, err, "storage: port in use")
	require.Equal(t, []string{"start etcd", "start storage", "end storage", "stop etcd"}, j.entries)
}

func TestAStopWhileStarting(t *testing.T) {
	j := &journal{}
	ctx, cancel := context.WithCancel(t.Context())
	never := j.part("storage", nil)
	never.Ready = func() error {
		cancel()
		return errors.New("not ready")
	}
	require.NoError(t, Run(ctx, []Part{j.part("etcd", nil), never, j.part("gateway", nil)}, func() {
		j.add("ready")
	}, quiet))
	require.NotContains(t, j.entries, "ready")
	require.NotContains(t, j.entries, "start gateway")
	require.Equal(t, "stop etcd", j.entries[len(j.entries)-1])
}

func TestErrorsOfStopsAreReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failing := Part{Name: "storage", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("cannot sync")
	}}
	require.EqualError(t, Run(ctx, []Part{failing}, cancel, quiet), "storage: cannot sync")
}

// A part that panics fails, and the others stop in their order.
func TestAPartThatPanics(t *testing.T) {
	j := &journal{}
	broken := Part{Name: "storage", Run: func(context.Context) error { panic("broken") }, Ready: func() error { return nil }}
	err := Run(t.Context(), []Part{j.part("etcd", nil), broken}, func() {}, quiet)
	require.ErrorContains(t, err, "storage: panic: broken")
	require.Equal(t, []string{"start etcd", "stop etcd"}, j.entries)
}
