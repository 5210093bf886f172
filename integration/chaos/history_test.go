package chaos

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

func TestLinearizable(t *testing.T) {
	image := []message{{writer: 1, count: 1}, {writer: 2, count: 2}, {writer: 2, index: 1, count: 2}}
	one, two, three := appended{request{1, 0}, 1}, appended{request{2, 0}, 2}, appended{request{3, 0}, 1}
	op := func(client int, input any, call, output, end int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: end}
	}
	for name, test := range map[string]struct {
		all []porcupine.Operation
		ok  bool
	}{
		"in order":          {[]porcupine.Operation{op(1, one, 0, 0, 1), op(2, two, 2, 1, 3), op(4, watched{}, 4, 3, 5)}, true},
		"side by side":      {[]porcupine.Operation{op(1, one, 0, 0, 9), op(2, two, 0, 1, 9), op(4, watched{}, 0, 1, 9)}, true},
		"a stale read":      {[]porcupine.Operation{op(1, one, 0, 0, 1), op(2, two, 2, 1, 3), op(4, watched{}, 4, 1, 5)}, false},
		"a later one first": {[]porcupine.Operation{op(2, two, 0, 1, 1), op(1, one, 2, 0, 3)}, false},
		"half a request":    {[]porcupine.Operation{op(1, one, 0, 0, 9), op(2, two, 0, 1, 9), op(4, watched{}, 0, 2, 9)}, false},
		"unknown, written":  {[]porcupine.Operation{op(1, one, 0, 0, 1), op(2, two, 2, unknown, math.MaxInt64), op(4, watched{}, 4, 1, 5), op(4, watched{}, 6, 3, 7)}, true},
		"unknown, not":      {[]porcupine.Operation{op(3, three, 0, unknown, math.MaxInt64), op(1, one, 1, 0, 2)}, true},
		"seen, then not":    {[]porcupine.Operation{op(1, one, 0, 0, 1), op(2, two, 2, unknown, math.MaxInt64), op(4, watched{}, 4, 3, 5), op(4, watched{}, 6, 1, 7)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory()
			h.all = test.all
			err := h.linearizable(image)
			if test.ok {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}

// watcher notes the high watermarks that reads see.
type watcher struct {
	number  int
	api     *httpapi.Client
	history *History
}

func (w *watcher) run(ctx context.Context) error {
	for {
		call := w.history.now()
		page, err := w.api.Consume(ctx, topic, 0, math.MaxInt64)
		if err != nil {
			return err
		}
		w.history.add(w.number, watched{}, call, page.HighWatermark, w.history.now())
	}
}

// TestHistoryIsLinearizable: an append that was answered is seen by every later
// read and stands before every later append, over kills too.
func TestHistoryIsLinearizable(t *testing.T) {
	random := newRandom(t)
	server := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, server)
	api := httpapi.New(server.HTTP())
	t.Cleanup(api.Close)
	require.NoError(t, api.CreateTopic(t.Context(), topic, 1, map[string]any{"segment_bytes": 16 << 10}))

	const writers, readers, kills = 3, 2, 3
	ledger, history := NewLedger(1), NewHistory()
	producer := historyProducer{httpProducer{api}, history}
	for range kills {
		ctx, cancel := context.WithTimeout(t.Context(), roundTimeout)
		var clients sync.WaitGroup
		// Their errors are those of the kill.
		for number := range writers {
			w := &writer{number: number, producer: producer, topic: topic, ledger: ledger, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
			clients.Go(func() { _ = w.run(ctx) })
		}
		for number := range readers {
			r := &watcher{writers + number, api, history}
			clients.Go(func() { _ = r.run(ctx) })
		}
		timer := time.NewTimer(between(random, 50*time.Millisecond, 200*time.Millisecond))
		<-timer.C
		server.Kill()
		clients.Wait()
		cancel()
		cluster.Start(t, server)
	}

	records, err := api.ReadFrom(t.Context(), topic, 0, 0)
	require.NoError(t, err)
	require.NoError(t, ledger.Check(0, 0, records))
	require.NoError(t, history.linearizable(ledger.parts[0].image))
	t.Logf("%d operations over %d records", len(history.all), len(records))
}
