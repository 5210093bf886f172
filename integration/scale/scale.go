// Package scale measures a topic of many partitions on a real server: what it
// costs to make, to hold, to start with, to write to.
package scale

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
	"github.com/sluiceio/sluice/integration/usage"
)

const (
	topic = "wide"
	// recordsEach request go to as many partitions.
	recordsEach = 100
	clients     = 4
)

// Report is what was measured.
type Report struct {
	Partitions int
	// Create is how long the topic took to be created, Restart from SIGTERM to
	// ready, Ready the second half of that, Write one record to each partition.
	Create, Restart, Ready, Write time.Duration
	// Memory after each step.
	RSSStart, RSSCreated, RSSRestarted, RSSWritten int64
	// Parts of a core, over the window.
	IdleBefore, IdleCreated, IdleRestarted, IdleWritten float64
}

// String is a table.
func (r Report) String() string {
	mib := func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
	return fmt.Sprintf(`| %d partitions | time | resident | idle CPU |
|---|--:|--:|--:|
| before | | %s | %.1f%% |
| created | %.2f s | %s | %.1f%% |
| stopped and ready again | %.2f s, of it ready %.2f s | %s | %.1f%% |
| a record in each partition | %.2f s | %s | %.1f%% |
`, r.Partitions,
		mib(r.RSSStart), r.IdleBefore*100,
		r.Create.Seconds(), mib(r.RSSCreated), r.IdleCreated*100,
		r.Restart.Seconds(), r.Ready.Seconds(), mib(r.RSSRestarted), r.IdleRestarted*100,
		r.Write.Seconds(), mib(r.RSSWritten), r.IdleWritten*100)
}

// Measure goes through the steps; window is how long idleness is watched for,
// none if 0. settle is how long a server that was written to may take to be
// idle.
func Measure(t testing.TB, partitions int, window, settle time.Duration) Report {
	t.Helper()
	server := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, server)
	api := httpapi.New(server.HTTP())
	t.Cleanup(api.Close)

	report := Report{Partitions: partitions}
	report.RSSStart, report.IdleBefore = watch(t, server, window)

	report.Create = timed(func() { require.NoError(t, api.CreateTopic(t.Context(), topic, partitions, nil)) })
	report.RSSCreated, report.IdleCreated = watch(t, server, window)

	report.Restart = timed(func() {
		require.NoError(t, server.Stop())
		report.Ready = timed(func() { cluster.Start(t, server) })
	})
	report.RSSRestarted, report.IdleRestarted = watch(t, server, window)

	report.Write = timed(func() { writeToEach(t, api, partitions) })
	if window > 0 {
		<-time.After(settle)
	}
	report.RSSWritten, report.IdleWritten = watch(t, server, window)
	requireEach(t, api, partitions)

	cluster.Restart(t, server)
	requireEach(t, api, partitions)
	return report
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// watch returns the memory, and the part of a core that is used over the window.
func watch(t testing.TB, server *cluster.Process, window time.Duration) (rss int64, idle float64) {
	t.Helper()
	before, err := usage.Of(server.PID())
	require.NoError(t, err)
	if window == 0 {
		return before.RSS, 0
	}
	<-time.After(window)
	after, err := usage.Of(server.PID())
	require.NoError(t, err)
	return after.RSS, (after.CPU - before.CPU).Seconds() / window.Seconds()
}

// writeToEach writes one record to each partition, many with each request.
func writeToEach(t testing.TB, api *httpapi.Client, partitions int) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(clients)
	for first := 0; first < partitions; first += recordsEach {
		group.Go(func() error {
			var records []httpapi.Record
			for partition := first; partition < min(first+recordsEach, partitions); partition++ {
				records = append(records, httpapi.To(partition, fmt.Sprint("value ", partition)))
			}
			produced, err := api.Produce(ctx, topic, records)
			for i, at := range produced {
				if at != (httpapi.Produced{Partition: first + i, Offset: 0}) {
					return fmt.Errorf("record %d of the request from %d stands at %+v", i, first, at)
				}
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// requireEach reads the record of each partition back.
func requireEach(t testing.TB, api *httpapi.Client, partitions int) {
	t.Helper()
	described, err := api.Topic(t.Context(), topic)
	require.NoError(t, err)
	require.Len(t, described, partitions)
	for i, partition := range described {
		require.Equal(t, i, partition.ID)
		require.EqualValues(t, 1, partition.EndOffset, "partition %d", i)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(clients)
	for partition := range partitions {
		group.Go(func() error { return readOne(ctx, api, partition, &mu, seen) })
	}
	require.NoError(t, group.Wait())
	require.Len(t, seen, partitions)
}

func readOne(ctx context.Context, api *httpapi.Client, partition int, mu *sync.Mutex, seen map[string]bool) error {
	page, err := api.Consume(ctx, topic, partition, 0)
	if err != nil {
		return err
	}
	if want := fmt.Sprint("value ", partition); len(page.Records) != 1 || page.Records[0].Value != want {
		return fmt.Errorf("partition %d: read %+v", partition, page.Records)
	}
	mu.Lock()
	defer mu.Unlock()
	seen[page.Records[0].Value] = true
	return nil
}
