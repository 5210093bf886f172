package cold

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
	"github.com/sluiceio/sluice/integration/s3peer"
)

const (
	// patience is how long a test waits for what the passes do by themselves.
	patience = 2 * time.Minute
	interval = 20 * time.Millisecond
	prefix   = "cluster-1/"
	topic    = "t"
)

// rig is a server of ours that keeps its segments in a bucket, behind a proxy.
type rig struct {
	bucket *s3peer.Server
	proxy  *s3peer.Proxy
	server *cluster.Process
	api    *httpapi.Client
	// written are the records of the topic's only partition, by offset.
	written []string
}

func newRig(t *testing.T, flags ...string) *rig {
	r := &rig{bucket: s3peer.Require(t)}
	r.proxy = s3peer.NewProxy(t, r.bucket)
	r.prepare(t, r.proxy.URL(), flags, "AWS_ACCESS_KEY_ID="+s3peer.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3peer.SecretKey, "AWS_REGION=us-east-1")
	return r
}

// newDirectRig has no proxy, and talks TLS with a server whose authority a variable
// of the environment names.
func newDirectRig(t *testing.T, trusted string, flags ...string) *rig {
	r := &rig{bucket: s3peer.RequireTLS(t)}
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(s3peer.SecretKey+"\n"), 0o600))
	r.prepare(t, r.bucket.URL(), append([]string{
		"--cold-storage-access-key", s3peer.AccessKey, "--cold-storage-secret-key-file", secret, "--cold-storage-region", "us-east-1",
		// Whatever this machine trusts otherwise.
	}, flags...), "AWS_CA_BUNDLE=", trusted+"="+r.bucket.Certificate())
	return r
}

func (r *rig) prepare(t *testing.T, endpoint string, flags []string, env ...string) {
	r.server = cluster.NewProcess(t, cluster.Options{
		Flags: append([]string{
			"--cold-storage", "s3://" + s3peer.Bucket + "/" + prefix + "?path-style=true", "--cold-storage-endpoint", endpoint,
			"--cold-check-interval", "50ms", "--cold-sweep-interval", "1s",
			"--retention-check-interval", "0", "--compaction-check-interval", "0", "--segment-delete-grace", "0",
		}, flags...),
		Env: env,
	})
	r.api = httpapi.New(r.server.HTTP())
	t.Cleanup(func() {
		r.api.Close()
		if log := r.server.Log(); strings.Contains(log, s3peer.SecretKey) || strings.Contains(log, s3peer.AccessKey) {
			t.Error("a key is in the log")
		}
	})
}

// start starts the server and makes the topic, with small segments that are
// dropped from the disk as soon as they are uploaded.
func (r *rig) start(t *testing.T) {
	t.Helper()
	cluster.Start(t, r.server)
	require.NoError(t, r.api.CreateTopic(t.Context(), topic, 1, map[string]any{"segment_bytes": 16 << 10, "local.retention.bytes": "0"}))
}

// produce writes records one by one, each of about a kilobyte.
func (r *rig) produce(t *testing.T, n int) {
	t.Helper()
	for range n {
		require.NoError(t, r.produceOne(t.Context()))
	}
}

func (r *rig) produceOne(ctx context.Context) error { return r.produceBytes(ctx, 1000) }

func (r *rig) produceBytes(ctx context.Context, size int) error {
	value := fmt.Sprintf("%d %s", len(r.written), strings.Repeat("x", size))
	got, err := r.api.Produce(ctx, topic, []httpapi.Record{httpapi.To(0, value)})
	if err != nil {
		return err
	}
	if got[0].Offset < int64(len(r.written)) {
		return fmt.Errorf("offset %d is taken", got[0].Offset)
	}
	// What a request wrote whose answer was lost has an offset too.
	for int64(len(r.written)) < got[0].Offset {
		r.written = append(r.written, "")
	}
	r.written = append(r.written, value)
	return nil
}

// reads checks that everything can be read, from the first offset that is kept.
func (r *rig) reads(t *testing.T) {
	t.Helper()
	partitions, err := r.api.Topic(t.Context(), topic)
	require.NoError(t, err)
	start := partitions[0].StartOffset
	records, err := r.api.ReadFrom(t.Context(), topic, 0, 0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(records), len(r.written)-int(start))
	r.requireWritten(t, records)
	require.Equal(t, start, records[0].Offset)
}

// requireWritten checks that records follow one another and are those that were
// written.
func (r *rig) requireWritten(t *testing.T, records []httpapi.Consumed) {
	t.Helper()
	for i, record := range records {
		require.Equal(t, records[0].Offset+int64(i), record.Offset)
		if at := int(record.Offset); at < len(r.written) && r.written[at] != "" {
			require.Equal(t, r.written[at], record.Value)
		}
	}
}

func (r *rig) tiered(t *testing.T) []httpapi.Tiered {
	t.Helper()
	segments, err := r.api.Tiered(t.Context(), topic, 0)
	require.NoError(t, err)
	for i, s := range segments[min(1, len(segments)):] {
		require.Equal(t, segments[i].LastOffset+1, s.BaseOffset)
	}
	return segments
}

func (r *rig) objects(t *testing.T) []string {
	t.Helper()
	objects := r.bucket.Objects(t, prefix)
	slices.Sort(objects)
	return objects
}

// settled says whether all but the active segment is in the bucket, gone from the
// disk, and nothing else is in the bucket.
func (r *rig) settled(t *testing.T) bool {
	partitions, err := r.api.Topic(t.Context(), topic)
	require.NoError(t, err)
	segments := r.tiered(t)
	var named []string
	for _, s := range segments {
		if s.Local {
			return false
		}
		named = append(named, prefix+s.Object)
	}
	slices.Sort(named)
	return len(segments) > 0 && partitions[0].EndOffset-segments[len(segments)-1].LastOffset < 20 && slices.Equal(named, r.objects(t))
}

func (r *rig) settle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.settled(t) }, patience, interval)
}

// finish deletes the topic and checks that nothing is left of it in the bucket.
func (r *rig) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, r.api.DeleteTopic(t.Context(), topic))
	require.Eventually(t, func() bool { return len(r.bucket.Files(t)) == 0 }, patience, interval)
	require.NoError(t, r.server.Stop())
}

// logs waits for words in the log.
func (r *rig) logs(t *testing.T, words string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.server.Log(), words) }, patience, interval, words)
}
