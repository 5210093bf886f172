package rpc

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoCallIsInFlightAfterNone(t *testing.T) {
	f := newInFlight()
	var (
		under   atomic.Int64
		callers sync.WaitGroup
	)
	began := make(chan struct{}, 4)
	for range cap(began) {
		callers.Go(func() {
			for first := true; f.begin(); first = false {
				under.Add(1)
				if first {
					began <- struct{}{}
				}
				under.Add(-1)
				f.end()
			}
		})
	}
	for range cap(began) {
		<-began
	}
	f.refuse()
	<-f.none
	require.Zero(t, under.Load())
	callers.Wait()
	require.False(t, f.begin())
	f.refuse()
}

func TestNoneWaitsForTheLastCall(t *testing.T) {
	f := newInFlight()
	require.True(t, f.begin())
	require.True(t, f.begin())
	f.end()
	f.refuse()
	require.False(t, f.begin())
	select {
	case <-f.none:
		require.Fail(t, "a call is in flight")
	default:
	}
	f.end()
	<-f.none
}
