package life_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/life"
)

func TestCloserUnwindsInReverseWhateverFails(t *testing.T) {
	var order []string
	var closer life.Closer
	for _, name := range []string{"disk", "log", "server"} {
		closer.Push(name, func() error {
			order = append(order, name)
			if name != "log" {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
	}
	err := closer.Close()
	require.Equal(t, []string{"server", "log", "disk"}, order)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.EqualError(t, err, "close server: unexpected EOF\nclose disk: unexpected EOF")

	require.NoError(t, closer.Close(), "the stack is empty after the first close")
	require.Len(t, order, 3)
}

func TestCloseOnErrorUnwindsAFailedConstructor(t *testing.T) {
	errListen, errClose := errors.New("address in use"), errors.New("disk gone")
	construct := func(fail error) (closed bool, err error) {
		var closer life.Closer
		defer closer.CloseOnError(&err)
		closer.Push("disk", func() error { closed = true; return errClose })
		return closed, fail
	}
	_, err := construct(errListen)
	require.ErrorIs(t, err, errListen)
	require.ErrorIs(t, err, errClose)

	closed, err := construct(nil)
	require.NoError(t, err)
	require.False(t, closed)
}
