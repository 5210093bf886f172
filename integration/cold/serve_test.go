package cold

import (
	"context"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/s3peer"
)

func TestSegmentsGoToTheBucketAndComeBack(t *testing.T) {
	t.Run("keys from the environment", func(t *testing.T) { thereAndBack(t, newRig(t)) })
	t.Run("keys from flags, over TLS", func(t *testing.T) { thereAndBack(t, newDirectRig(t, "SSL_CERT_FILE")) })
	t.Run("over TLS, trusted as Amazon's tools are told to", func(t *testing.T) { thereAndBack(t, newDirectRig(t, "AWS_CA_BUNDLE")) })
}

func thereAndBack(t *testing.T, r *rig) {
	r.start(t)
	r.logs(t, "cold storage can be used")
	r.produce(t, 200)
	r.settle(t)
	segments := r.tiered(t)
	require.Greater(t, len(segments), 8)
	var logs []string
	require.Eventually(t, func() bool {
		var err error
		logs, err = filepath.Glob(filepath.Join(r.server.DataDir(), "storage", "topics", "*", "*", "*.log"))
		require.NoError(t, err)
		return len(logs) < 3
	}, patience, interval, "the local copies are gone: %v", logs)
	r.reads(t)
	cluster.Restart(t, r.server)
	r.reads(t)

	// Retention is of all that the partition has, wherever it is.
	require.NoError(t, r.api.Configure(t.Context(), topic, map[string]any{"retention_bytes": 50 << 10}))
	require.NoError(t, r.api.RunRetention(t.Context()))
	require.Less(t, len(r.tiered(t)), len(segments))
	require.Less(t, len(r.objects(t)), len(segments))
	r.settle(t)
	r.reads(t)
	r.finish(t)
}

// The server is killed while segments are on their way, again and again.
func TestKilledInTheMiddleOfUploads(t *testing.T) {
	r := newRig(t)
	r.start(t)
	for round := range 8 {
		// A segment takes a quarter of a second.
		r.proxy.Set(func(*http.Request) s3peer.Fault { return s3peer.Fault{BytesPerSecond: 64 << 10} })
		r.produce(t, 60)
		require.Eventually(t, func() bool { return r.proxy.Seen() > 0 }, patience, interval)
		timer := time.NewTimer(time.Duration(rand.IntN(500)) * time.Millisecond)
		<-timer.C
		r.server.Kill()
		cluster.Start(t, r.server)
		r.reads(t)
		t.Logf("round %d: %d segments in the bucket", round, len(r.tiered(t)))
	}
	r.proxy.Set(nil)
	r.settle(t)
	r.reads(t)
	r.finish(t)
}

// All at once, at random: a bucket in every kind of trouble, retention, and kills.
func TestKilledUnderABadBucket(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, "--retention-check-interval", "100ms")
	r.start(t)
	require.NoError(t, r.api.Configure(t.Context(), topic, map[string]any{"retention_bytes": 200 << 10}))
	faults := []s3peer.Fault{
		{}, {Status: http.StatusServiceUnavailable}, {Status: http.StatusForbidden}, {CutRequest: true}, {CutAnswer: true},
		{Lost: true}, {BytesPerSecond: 50 << 10}, {Delay: 50 * time.Millisecond},
	}
	for range 12 {
		fault, share := faults[random.IntN(len(faults))], random.Float64()
		r.proxy.Set(func(*http.Request) s3peer.Fault {
			if rand.Float64() < share {
				return fault
			}
			return s3peer.Fault{}
		})
		r.produce(t, 1+random.IntN(80))
		if random.IntN(4) == 0 {
			r.proxy.Down(t)
			r.produce(t, random.IntN(40))
			r.proxy.Up(t)
		}
		if random.IntN(2) == 0 {
			timer := time.NewTimer(time.Duration(random.IntN(300)) * time.Millisecond)
			<-timer.C
			r.server.Kill()
			r.proxy.Set(nil)
			cluster.Start(t, r.server)
			records, err := r.api.ReadFrom(t.Context(), topic, 0, 0)
			require.NoError(t, err)
			r.requireWritten(t, records)
			require.GreaterOrEqual(t, records[len(records)-1].Offset, int64(len(r.written)-1))
		}
	}
	r.proxy.Set(nil)
	r.settle(t)
	require.NoError(t, r.api.RunRetention(t.Context()))
	r.settle(t)
	r.reads(t)
	partitions, err := r.api.Topic(t.Context(), topic)
	require.NoError(t, err)
	kept := 0
	for _, value := range r.written[partitions[0].StartOffset:] {
		kept += len(value)
	}
	require.GreaterOrEqual(t, kept, 200<<10-16<<10, "retention lets go what is over its limit, and no more")
	r.finish(t)
}

// Parts of a segment that nobody will complete cost, and no list shows them.
func TestKilledInTheMiddleOfAnUploadInParts(t *testing.T) {
	r := newRig(t)
	r.start(t)
	require.NoError(t, r.api.Configure(t.Context(), topic, map[string]any{"segment_bytes": 20 << 20}))
	r.proxy.Set(func(r *http.Request) s3peer.Fault {
		if r.URL.Query().Get("partNumber") == "2" {
			return s3peer.Fault{Delay: patience}
		}
		return s3peer.Fault{}
	})
	for range 25 {
		require.NoError(t, r.produceBytes(t.Context(), 1<<20))
	}
	require.Eventually(t, func() bool { return len(r.bucket.Files(t)) > 0 }, patience, interval, "a part of it is there")
	require.Empty(t, r.objects(t))
	r.server.Kill()
	r.proxy.Set(nil)
	cluster.Start(t, r.server)
	r.settle(t)
	require.ElementsMatch(t, r.objects(t), r.bucket.Files(t), "and nothing else")
	r.reads(t)
	r.finish(t)
}

// Whatever the bucket does, records are written and the newest are read as if
// nothing were, nothing is lost, and in the end nothing is left behind.
func TestABadBucketDisturbsNobody(t *testing.T) {
	r := newRig(t)
	r.start(t)
	half := func(fault s3peer.Fault) func(*http.Request) s3peer.Fault {
		return func(*http.Request) s3peer.Fault {
			if rand.IntN(2) == 0 {
				return fault
			}
			return s3peer.Fault{}
		}
	}
	always := func(fault s3peer.Fault) func(*http.Request) s3peer.Fault {
		return func(*http.Request) s3peer.Fault { return fault }
	}
	for _, c := range []struct {
		name   string
		faults func(*http.Request) s3peer.Fault
	}{
		{"well", nil},
		{"busy", always(s3peer.Fault{Status: http.StatusServiceUnavailable})},
		{"busy now and then", half(s3peer.Fault{Status: http.StatusServiceUnavailable})},
		{"refuses", always(s3peer.Fault{Status: http.StatusForbidden})},
		{"slow", always(s3peer.Fault{Delay: 100 * time.Millisecond, BytesPerSecond: 20 << 10})},
		{"cuts requests", always(s3peer.Fault{CutRequest: true})},
		{"cuts answers", half(s3peer.Fault{CutAnswer: true})},
		{"loses answers", half(s3peer.Fault{Lost: true})},
		{"loses all answers", always(s3peer.Fault{Lost: true})},
	} {
		r.proxy.Set(c.faults)
		r.undisturbed(t, c.name, func() bool { return r.proxy.Seen() > 1 })
	}
	r.proxy.Down(t)
	r.undisturbed(t, "connection refused", func() bool { return true })
	r.proxy.Up(t)
	r.proxy.Set(nil)
	r.bucket.Kill()
	r.undisturbed(t, "dead", func() bool { return true })
	r.bucket.Start(t)
	r.undisturbed(t, "back", func() bool { return true })

	r.settle(t)
	r.reads(t)
	r.finish(t)
}

// undisturbed writes and reads for a while, and until something is so, and neither
// may fail.
func (r *rig) undisturbed(t *testing.T, what string, until func() bool) {
	t.Helper()
	least, most := time.Now().Add(time.Second), time.Now().Add(patience)
	slowest, records := time.Duration(0), 0
	for time.Now().Before(least) || !until() {
		require.True(t, time.Now().Before(most), what)
		began := time.Now()
		require.NoError(t, r.produceOne(t.Context()), what)
		end := int64(len(r.written))
		page, err := r.api.Consume(t.Context(), topic, 0, end-1)
		require.NoError(t, err, what)
		require.Len(t, page.Records, 1)
		require.Equal(t, r.written[end-1], page.Records[0].Value)
		slowest = max(slowest, time.Since(began))
		records++
	}
	t.Logf("%s: %d records, the slowest took %s; %d requests to the bucket", what, records, slowest.Round(time.Millisecond), r.proxy.Seen())
}

// A reader of what is in the bucket gets an error that says so while the bucket is
// away, and goes on where it was when it is back.
func TestReadersWaitForABucketThatIsAway(t *testing.T) {
	// What is in memory needs no bucket: the server that reads has just started.
	r := newRig(t)
	r.start(t)
	r.produce(t, 100)
	r.settle(t)
	cluster.Restart(t, r.server)
	r.proxy.Set(func(*http.Request) s3peer.Fault { return s3peer.Fault{Status: http.StatusForbidden} })
	answer, err := r.api.Do(t.Context(), "GET", "/topics/t/consume?partition=0&offset=0", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.Status, string(answer.Body))
	require.NotEmpty(t, answer.Header.Get("Retry-After"))
	require.Contains(t, string(answer.Body), "cold storage")
	require.NotContains(t, string(answer.Body), s3peer.AccessKey)
	page, err := r.api.Consume(t.Context(), topic, 0, 99)
	require.NoError(t, err, "what is on disk is read")
	require.Len(t, page.Records, 1)

	r.proxy.Set(nil)
	r.reads(t)
	r.finish(t)
}

func TestADamagedObjectIsNeverServed(t *testing.T) {
	r := newRig(t)
	r.start(t)
	r.produce(t, 100)
	r.settle(t)
	segments := r.tiered(t)
	cluster.Restart(t, r.server)
	spoilt := segments[1]
	r.bucket.Spoil(t, prefix+spoilt.Object, spoilt.SizeBytes/2)
	answer, err := r.api.Do(t.Context(), "GET", "/topics/t/consume?partition=0&max_records=10000&offset=0", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.Status, "what comes before it")
	for offset := spoilt.BaseOffset; ; offset++ {
		page, err := r.api.Consume(t.Context(), topic, 0, offset)
		if err != nil {
			require.ErrorContains(t, err, "damaged")
			require.LessOrEqual(t, offset, spoilt.LastOffset)
			break
		}
		for _, record := range page.Records {
			require.Equal(t, r.written[record.Offset], record.Value)
		}
	}
	page, err := r.api.Consume(t.Context(), topic, 0, spoilt.LastOffset+1)
	require.NoError(t, err)
	require.NotEmpty(t, page.Records)
	r.finish(t)
}

func TestStartsWithoutItsBucket(t *testing.T) {
	r := newRig(t)
	r.proxy.Down(t)
	r.start(t)
	r.produce(t, 50)
	r.logs(t, "cold storage cannot be used")
	require.Contains(t, r.server.Log(), "connection refused")
	r.reads(t)
	r.proxy.Up(t)
	r.logs(t, "cold storage can be used")
	r.settle(t)
	r.reads(t)
	r.finish(t)
}

// Readers of the old and the new, while segments go to the bucket under them.
func TestReadersNoticeNothing(t *testing.T) {
	r := newRig(t)
	r.start(t)
	r.produce(t, 50)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers sync.WaitGroup
	failed := make([]error, 4)
	passes := make([]int, len(failed))
	for i := range failed {
		readers.Go(func() {
			for ctx.Err() == nil {
				records, err := r.api.ReadFrom(t.Context(), topic, 0, 0)
				if err != nil {
					failed[i] = err
					return
				}
				for at, record := range records {
					if record.Offset != int64(at) {
						t.Errorf("offset %d where %d was expected", record.Offset, at)
						return
					}
				}
				passes[i]++
			}
		})
	}
	r.produce(t, 500)
	r.settle(t)
	cancel()
	readers.Wait()
	for i, err := range failed {
		require.NoError(t, err)
		require.Positive(t, passes[i])
	}
	r.reads(t)
	r.finish(t)
}
