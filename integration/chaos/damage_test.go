package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// wound is damage to durable bytes of one partition.
type wound struct {
	name string
	// kill says that the server is killed before, not stopped.
	kill bool
	do   func(t *testing.T, p partitionFiles)
}

func flipInMiddle(t *testing.T, path string) {
	_, end, err := batchesEnd(path)
	require.NoError(t, err)
	require.Positive(t, end)
	require.NoError(t, flipByte(path, int64(end/2)))
}

var wounds = []wound{
	{"a flipped byte in a sealed segment after a stop", false, func(t *testing.T, p partitionFiles) { flipInMiddle(t, p.logs[0]) }},
	{"a flipped byte in a sealed segment after a kill", true, func(t *testing.T, p partitionFiles) { flipInMiddle(t, p.logs[0]) }},
	{"a flipped byte in the active segment after a stop", false, func(t *testing.T, p partitionFiles) { flipInMiddle(t, p.logs[len(p.logs)-1]) }},
	{"a flipped byte in the active segment after a kill", true, func(t *testing.T, p partitionFiles) { flipInMiddle(t, p.logs[len(p.logs)-1]) }},
	{"a sealed segment gone", false, func(t *testing.T, p partitionFiles) { require.NoError(t, os.Remove(p.logs[1])) }},
	{"the active segment cut", true, func(t *testing.T, p partitionFiles) {
		path := p.logs[len(p.logs)-1]
		_, end, err := batchesEnd(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, int64(end-1)))
	}},
	{"the journal gone", false, func(t *testing.T, p partitionFiles) { require.NoError(t, os.Remove(filepath.Join(p.dir, "journal"))) }},
	{"a flipped byte in the journal's first frame", true, func(t *testing.T, p partitionFiles) {
		require.NoError(t, flipByte(filepath.Join(p.dir, "journal"), 1024+12))
	}},
}

// TestDamage: a partition with damaged files answers with an error or with what
// was written, never with anything else; the process stays up and the other
// partition works.
func TestDamage(t *testing.T) {
	for _, w := range wounds {
		t.Run(w.name, func(t *testing.T) {
			p := cluster.NewProcess(t, cluster.Options{})
			cluster.Start(t, p)
			api := httpapi.New(p.HTTP())
			t.Cleanup(api.Close)
			require.NoError(t, api.CreateTopic(t.Context(), topic, 2, map[string]any{"segment_bytes": 4096}))
			values := fill(t, api)

			if w.kill {
				p.Kill()
			} else {
				require.NoError(t, p.Stop())
			}
			w.do(t, replicaWith(t, p.DataDir(), "damaged 0 "))
			cluster.Start(t, p)

			requireRefused(t, api, values)
			records, err := api.ReadFrom(t.Context(), topic, 1, 0)
			require.NoError(t, err)
			require.Len(t, records, len(values))
			produced, err := api.Produce(t.Context(), topic, []httpapi.Record{httpapi.To(1, "on")})
			require.NoError(t, err)
			require.EqualValues(t, len(values), produced[0].Offset)
			answer, err := api.Do(t.Context(), "GET", "/healthz", nil)
			require.NoError(t, err)
			require.Equal(t, 200, answer.Status)

			// Over another start nothing is forgotten either.
			cluster.Restart(t, p)
			requireRefused(t, api, values)
		})
	}
}

// TestDamageWhileRunning: bytes that rot under a running server are not served.
func TestDamageWhileRunning(t *testing.T) {
	p := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, p)
	api := httpapi.New(p.HTTP())
	t.Cleanup(api.Close)
	require.NoError(t, api.CreateTopic(t.Context(), topic, 2, map[string]any{"segment_bytes": 4096}))
	values := fill(t, api)
	flipInMiddle(t, replicaWith(t, p.DataDir(), "damaged 0 ").logs[0])
	requireRefused(t, api, values)
	records, err := api.ReadFrom(t.Context(), topic, 1, 0)
	require.NoError(t, err)
	require.Len(t, records, len(values))
}

// fill writes the same number of records to both partitions, over several
// segments, and returns the values of partition 0.
func fill(t *testing.T, api *httpapi.Client) []string {
	var values []string
	for range 60 {
		value := "damaged 0 " + strings.Repeat("x", 300)
		_, err := api.Produce(t.Context(), topic, []httpapi.Record{httpapi.To(0, value), httpapi.To(1, "healthy 1 "+value[10:])})
		require.NoError(t, err)
		values = append(values, value)
	}
	return values
}

func replicaWith(t *testing.T, dataDir, text string) partitionFiles {
	all, err := findPartitions(dataDir)
	require.NoError(t, err)
	for _, p := range all {
		if p.holds(text) {
			require.Greater(t, len(p.logs), 2)
			return p
		}
	}
	require.Fail(t, "no replica holds "+text)
	return partitionFiles{}
}

// requireRefused reads partition 0 as far as that goes: it must end with an
// error before the end, and what comes before it must be right.
func requireRefused(t *testing.T, api *httpapi.Client, values []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var offset int64
	for {
		page, err := api.Consume(ctx, topic, 0, offset)
		if err != nil {
			var answer *httpapi.Error
			require.True(t, errors.As(err, &answer), "%v", err)
			require.GreaterOrEqual(t, answer.Status, 500)
			require.NotRegexp(t, `/storage/|\.log|journal`, answer.Message, "an error must not show files")
			return
		}
		for _, record := range page.Records {
			require.Equal(t, offset, record.Offset)
			require.Equal(t, values[offset], record.Value)
			offset++
		}
		require.Less(t, offset, int64(len(values)), "all was read in spite of the damage")
		require.Equal(t, offset, page.NextOffset)
		require.NotEmpty(t, page.Records, "no record at %d of %d, and no error", offset, len(values))
	}
}
