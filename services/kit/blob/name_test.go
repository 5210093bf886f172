package blob_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "a/b", "A-Z_0.9/..a/b..", ".a", "...", strings.Repeat("x", 512)} {
		require.NoError(t, blob.CheckName(good), good)
	}
	for _, bad := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a b", "a\x00b", "a\\b", "ä", "a~b", "a%2fb", "a:b",
		strings.Repeat("x", 513),
	} {
		require.ErrorIs(t, blob.CheckName(bad), blob.ErrInvalidName, bad)
	}
}
