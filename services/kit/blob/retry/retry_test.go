package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
	"github.com/sluiceio/sluice/services/kit/blob/faultblob"
	"github.com/sluiceio/sluice/services/kit/blob/retry"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var (
	errBusy    = errors.New("busy")
	errRefused = errors.New("refused")
	data       = []byte("0123456789")
)

func policy() retry.Policy {
	return retry.Policy{
		Temporary: func(err error) bool { return errors.Is(err, errBusy) },
		Tries:     3,
		Backoff:   backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond},
	}
}

func stores(hook faultblob.Hook) (*faultblob.Store, blob.Store, *int) {
	tries := 0
	counted := func(op faultblob.Op, name string) faultblob.Fault {
		tries++
		if hook == nil {
			return faultblob.Fault{}
		}
		return hook(op, name)
	}
	faulty := faultblob.New(blobtest.NewMemory(), counted)
	return faulty, retry.New(faulty, policy()), &tries
}

func put(ctx context.Context, store blob.Store) error {
	return store.Put(ctx, "o", bytes.NewReader(data), int64(len(data)), blobtest.Checksum(data))
}

func TestIsAStore(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return retry.New(blobtest.NewMemory(), retry.Policy{}) })
	blobtest.Run(t, func(*testing.T) blob.Store { return faultblob.New(blobtest.NewMemory(), nil) })
}

func TestTriesAgainWhatMaySucceed(t *testing.T) {
	faults := map[string]faultblob.Fault{
		"refused for now": {Err: errBusy},
		"half way":        {Err: errBusy, Half: true},
		"answer lost":     {Err: errBusy, Lost: true},
	}
	for name, fault := range faults {
		for _, op := range []faultblob.Op{faultblob.Put, faultblob.ReadAt, faultblob.Delete, faultblob.List} {
			t.Run(name+"/"+string(op), func(t *testing.T) {
				faulty, store, tries := stores(nil)
				require.NoError(t, put(t.Context(), store))
				*tries = 0
				hook := faultblob.First(op, 2, fault)
				faulty.SetHook(func(op faultblob.Op, name string) faultblob.Fault {
					*tries++
					return hook(op, name)
				})
				switch op {
				case faultblob.Put:
					require.NoError(t, put(t.Context(), store))
				case faultblob.ReadAt:
					require.Equal(t, string(data), string(blobtest.Get(t, store, "o")))
				case faultblob.Delete:
					require.NoError(t, store.Delete(t.Context(), "o"))
				case faultblob.List:
					require.Equal(t, []string{"o"}, blobtest.Names(t, store, ""))
				}
				require.Equal(t, 3, *tries)
			})
		}
	}
}

func TestGivesUp(t *testing.T) {
	_, store, tries := stores(faultblob.Always(faultblob.Fault{Err: errBusy}))
	err := put(t.Context(), store)
	require.ErrorIs(t, err, errBusy)
	require.ErrorContains(t, err, "tried 3 times: busy")
	require.Equal(t, 3, *tries)

	// One inside the other does not try nine times.
	*tries = 0
	require.ErrorIs(t, put(t.Context(), retry.New(store, policy())), errBusy)
	require.Equal(t, 3, *tries)
	*tries = 0
	for _, err := range store.List(t.Context(), "") {
		require.ErrorIs(t, err, errBusy)
	}
	require.Equal(t, 3, *tries)
}

func TestTriesOnceWhatCannotSucceed(t *testing.T) {
	for _, err := range []error{
		errRefused, fmt.Errorf("wrapped: %w", blob.ErrNotFound), io.EOF, blob.ErrChecksum, blob.ErrInvalidName,
	} {
		_, store, tries := stores(faultblob.Always(faultblob.Fault{Err: err}))
		require.Equal(t, err, put(t.Context(), store))
		_, got := store.ReadAt(t.Context(), "o", make([]byte, 1), 0)
		require.Equal(t, err, got)
		require.Equal(t, err, store.Delete(t.Context(), "o"))
		for _, got := range store.List(t.Context(), "") {
			require.Equal(t, err, got)
		}
		require.Equal(t, 4, *tries)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, tries := stores(faultblob.Always(faultblob.Fault{Wait: make(chan struct{})}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, put(ctx, store), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, *tries)
	})
}

func TestTakesSlowForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := faultblob.First(faultblob.Put, 1, faultblob.Fault{Wait: make(chan struct{})})
		faulty := faultblob.New(blobtest.NewMemory(), hook)
		p := policy()
		p.Latency, p.BytesPerSecond = time.Minute, 10
		store := retry.New(faulty, p)
		began := time.Now()
		require.NoError(t, put(t.Context(), store))
		require.WithinRange(t, time.Now(), began.Add(61*time.Second), began.Add(62*time.Second))

		faulty.SetHook(faultblob.Always(faultblob.Fault{Wait: make(chan struct{})}))
		_, err := store.ReadAt(t.Context(), "o", make([]byte, 100), 0)
		require.ErrorContains(t, err, "tried 3 times: no end after 1m10s: ")
		for _, err := range store.List(t.Context(), "") {
			require.ErrorContains(t, err, "tried 3 times: no end after 1m0s: ")
		}
	})
}

// Objects that come slowly, or a caller that takes its time, are no reason to
// break a list off.
func TestListMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := blobtest.NewMemory()
		for i := range 5 {
			blobtest.Put(t, memory, fmt.Sprint(i), nil)
		}
		seen := 0
		for _, err := range retry.New(memory, policy()).List(t.Context(), "") {
			require.NoError(t, err)
			<-time.After(time.Hour)
			seen++
		}
		require.Equal(t, 5, seen)
	})
}

func TestListGoesOnWhereItBroke(t *testing.T) {
	faulty, store, _ := stores(nil)
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf("%d/x", i))
		blobtest.Put(t, faulty, want[i], nil)
	}
	faulty.SetHook(faultblob.First(faultblob.List, 2, faultblob.Fault{Err: errBusy, Half: true}))
	require.Equal(t, want, blobtest.Names(t, store, ""))

	faulty.SetHook(faultblob.First(faultblob.List, 3, faultblob.Fault{Err: errBusy, Half: true}))
	for info, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		if info.Name == want[2] {
			break
		}
	}
}

func TestTimeoutFollowsSize(t *testing.T) {
	require.Equal(t, 30*time.Second, retry.Policy{}.Timeout(0))
	require.Equal(t, 34*time.Second, retry.Policy{}.Timeout(1<<20))
	require.Equal(t, 2*time.Second, retry.Policy{Latency: time.Second, BytesPerSecond: 1 << 20}.Timeout(1<<20))
}
