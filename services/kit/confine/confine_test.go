package confine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func broken() error { panic("broken") }

func TestCatch(t *testing.T) {
	require.NoError(t, confine.Catch(func() error { return nil }))
	require.Equal(t, io.EOF, confine.Catch(func() error { return io.EOF }))
	err := confine.Catch(broken)
	var caught *confine.Error
	require.ErrorAs(t, err, &caught)
	require.ErrorContains(t, err, "panic: broken\n")
	require.ErrorContains(t, err, "confine_test.broken", "it has the stack")
	require.ErrorIs(t, confine.Catch(func() error { panic(io.EOF) }), io.EOF)
	numbers := []int{}
	require.ErrorContains(t, confine.Catch(func() error { return fmt.Errorf("%d", numbers[len(t.Name())]) }), "index out of range")
}

// The log has the stack under the id that the error names, and nobody else has it.
func TestAttempt(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	require.Equal(t, io.EOF, confine.Attempt(t.Context(), logger, func() error { return io.EOF }))
	require.Empty(t, log.String())
	err := confine.Attempt(t.Context(), logger, broken)
	require.ErrorContains(t, err, "internal error (id ")
	require.NotContains(t, err.Error(), "broken")
	require.Contains(t, log.String(), "panic: broken")
	require.Contains(t, log.String(), "confine_test.broken")
}

func TestGo(t *testing.T) {
	var wg sync.WaitGroup
	var lost error
	confine.Go(&wg, slog.New(slog.DiscardHandler), func(err error) { lost = err }, func() { _ = broken() })
	confine.Go(&wg, slog.New(slog.DiscardHandler), nil, func() { _ = broken() })
	wg.Wait()
	require.Error(t, lost)
	confine.Go(&wg, slog.New(slog.DiscardHandler), func(error) { panic("nothing was lost") }, func() {})
	wg.Wait()
}

func TestAsync(t *testing.T) {
	require.ErrorContains(t, <-confine.Async(broken), "panic: broken")
	require.NoError(t, <-confine.Async(func() error { return nil }))
}

// All parts are done before the panic of one is that of who waits.
func TestFan(t *testing.T) {
	var fan confine.Fan
	done := make([]bool, 10)
	for i := range done {
		fan.Do(func() {
			if i == 3 {
				_ = broken()
			}
			done[i] = true
		})
	}
	err := confine.Catch(func() error {
		fan.Wait()
		return nil
	})
	require.ErrorContains(t, err, "confine_test.broken", "the stack is that of the part")
	for i := range done {
		require.Equal(t, i != 3, done[i])
	}
	var fine confine.Fan
	fine.Do(func() {})
	fine.Wait()
	require.False(t, errors.Is(err, io.EOF))
}
