package openfiles_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluiceio/sluice/services/kit/openfiles"
)

func TestShare(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.EqualValues(t, min(max(limit.Cur/8, 16), 1<<16), openfiles.Share(8))
	require.Equal(t, 16, openfiles.Share(1<<40), "never too few to work with")
}
