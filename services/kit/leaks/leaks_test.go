package leaks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func TestSettle(t *testing.T) {
	require.NoError(t, settle(0))
	ends := make(chan struct{})
	go func() { <-ends }()
	require.ErrorContains(t, settle(0), "found unexpected goroutines")
	// It takes longer than goleak waits.
	time.AfterFunc(time.Second, func() { close(ends) })
	require.NoError(t, settle(time.Minute))
}
