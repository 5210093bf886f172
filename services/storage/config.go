package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// Config is what an operator sets of a storage node.
type Config struct {
	// Dir is the node's folder. The binary sets it from --data-dir.
	Dir string

	// SegmentBytes is the default size at which a segment is sealed, for topics
	// that do not set segment.bytes. Larger segments are fewer files; retention
	// and compaction free space by whole segments.
	SegmentBytes int64

	// MaxMessageBytes is the default bound of one batch, for topics that do not
	// set max.message.bytes. A record larger than that cannot be written.
	MaxMessageBytes int

	// FlushEveryRecords is how many records may be acknowledged before a sync. 1
	// syncs before each acknowledgement. Anything above loses that many
	// acknowledged records of each partition in a power cut (not in a crash of
	// the process), and holds for partitions with a single replica only.
	FlushEveryRecords int

	// Workers bounds the partitions that are written, and so synced, at once.
	Workers int

	// MaxAwake bounds the partitions that hold file handles for appends, two
	// each. 0 is an eighth of the process's limit of open files.
	MaxAwake int

	// MaxReadHandles bounds the segments that are held open for reading. 0 is an
	// eighth of the process's limit of open files.
	MaxReadHandles int

	// IdleAfter is how long after its last append a partition gives back its
	// file handles.
	IdleAfter time.Duration

	// MaxAppendBytes bounds the bytes of appends that wait or are being written,
	// over all partitions. An append waits for room.
	MaxAppendBytes int64

	// MinFreeBytes is kept free on the disk: while there is less, clients' appends
	// are refused, and what is there is served. 0 keeps nothing; then the disk runs
	// full, and with it what is needed to make room again, and etcd if it has its
	// files there.
	MinFreeBytes int64

	// MaxProducers bounds the idempotent producers that a partition remembers;
	// beyond it those that appended least lately are forgotten, and their retries
	// are written again. Each takes some 200 bytes of memory while records of other
	// producers do not come between its own, and up to 4 KiB otherwise.
	MaxProducers int

	// MaxFetchBytes bounds one answer to a fetch; the first batch comes whole.
	MaxFetchBytes int

	// MaxFetchWait bounds how long a fetch waits for records.
	MaxFetchWait time.Duration

	// RetentionInterval and CompactionInterval are the times between passes over
	// all partitions; 0 runs them when they are asked for alone.
	RetentionInterval, CompactionInterval time.Duration

	// DeleteGrace is how long the files of segments stay that retention has
	// dropped.
	DeleteGrace time.Duration

	// CompactionBytes bounds the memory for keys while a partition is compacted,
	// 24 bytes each. A partition with more keys is read several times.
	CompactionBytes int64

	// What follows matters with cold storage alone.

	// ColdInterval is the time between passes that upload segments, drop local
	// copies and delete objects; 0 runs them when retention is asked for alone.
	ColdInterval time.Duration

	// ColdLocalRetentionMs and ColdLocalRetentionBytes are how long, and how much
	// of a partition, stays on disk of what is in cold storage, for topics that do
	// not set local.retention.ms and local.retention.bytes. -1 is without limit, -2
	// as long as the topic's retention.
	ColdLocalRetentionMs, ColdLocalRetentionBytes int64

	// ColdUploads bounds the segments that are uploaded at once.
	ColdUploads int

	// ColdReads bounds the requests of readers to the store at once, and
	// ColdReadTimeout each of them: a fetch that waits longer is answered with an
	// error that can be retried.
	ColdReads       int
	ColdReadTimeout time.Duration

	// ColdCacheBytes bounds the memory for what was read from the store.
	ColdCacheBytes int64

	// ColdSweepInterval is the time between listings of a partition's objects, for
	// ones that a failure left and nobody names.
	ColdSweepInterval time.Duration
}

// RegisterFlags registers the flags with their defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.Int64Var(&c.SegmentBytes, "segment-bytes", 1<<30, "size in bytes at which a segment is sealed, for topics that set none")
	fs.IntVar(&c.FlushEveryRecords, "flush-every-records", 1, "records acknowledged before a sync; above 1 a power cut loses acknowledged records")
	fs.IntVar(&c.MaxMessageBytes, "max-message-bytes", 8<<20+4096, "largest record batch in bytes, for topics that set no max.message.bytes")
	fs.IntVar(&c.Workers, "storage-workers", 64, "partitions written at once")
	fs.IntVar(&c.MaxAwake, "storage-max-awake", 0, "partitions that hold file handles for appends; 0: an eighth of the open-files limit")
	fs.IntVar(&c.MaxReadHandles, "storage-max-read-handles", 0, "segments held open for reading; 0: an eighth of the open-files limit")
	fs.DurationVar(&c.IdleAfter, "storage-idle-after", 5*time.Second, "time after its last append at which a partition gives back its file handles")
	fs.Int64Var(&c.MaxAppendBytes, "storage-max-append-bytes", 256<<20, "bytes of appends that wait or are written, over all partitions")
	fs.Int64Var(&c.MinFreeBytes, "storage-min-free-bytes", 128<<20, "bytes of the disk that are kept free: with less, appends are refused and reads go on; 0: none")
	fs.IntVar(&c.MaxProducers, "storage-max-producers", 10_000, "idempotent producers that a partition remembers")
	fs.IntVar(&c.MaxFetchBytes, "storage-max-fetch-bytes", 50<<20, "largest answer to a fetch in bytes")
	fs.DurationVar(&c.MaxFetchWait, "storage-max-fetch-wait", 30*time.Second, "longest wait of a fetch for records")
	fs.DurationVar(&c.RetentionInterval, "retention-check-interval", 5*time.Minute, "time between retention passes; 0: only when asked for")
	fs.DurationVar(&c.CompactionInterval, "compaction-check-interval", time.Minute, "time between compaction passes; 0: only when asked for")
	fs.DurationVar(&c.DeleteGrace, "segment-delete-grace", time.Minute, "time that the files of segments dropped by retention stay")
	fs.Int64Var(&c.CompactionBytes, "storage-compaction-bytes", 32<<20, "memory for the keys of a partition that is compacted")
	fs.DurationVar(&c.ColdInterval, "cold-check-interval", 30*time.Second, "time between passes that upload to cold storage; 0: only when retention is asked for")
	fs.Int64Var(&c.ColdLocalRetentionMs, "cold-local-retention-ms", node.AsRetention, "time in ms that what is in cold storage stays on disk, for topics that set no local.retention.ms; -1: no limit, -2: as retention.ms")
	fs.Int64Var(&c.ColdLocalRetentionBytes, "cold-local-retention-bytes", node.AsRetention, "bytes of a partition that stay on disk of what is in cold storage, for topics that set no local.retention.bytes; -1: no limit, -2: as retention.bytes")
	fs.IntVar(&c.ColdUploads, "cold-uploads", 2, "segments uploaded to cold storage at once")
	fs.IntVar(&c.ColdReads, "cold-reads", 16, "requests to read from cold storage at once")
	fs.DurationVar(&c.ColdReadTimeout, "cold-read-timeout", 15*time.Second, "longest wait for one request to read from cold storage")
	fs.Int64Var(&c.ColdCacheBytes, "cold-cache-bytes", 64<<20, "memory for what was read from cold storage")
	fs.DurationVar(&c.ColdSweepInterval, "cold-sweep-interval", 6*time.Hour, "time between listings of a partition's cold storage for what failures left")
}

// The smallest segment holds a batch's header and a little; the largest is what
// 32-bit positions in an index can name.
const (
	minSegmentBytes = 1 << 10
	maxSegmentBytes = 1<<31 - 1
)

// minCompactionBytes keeps compaction from reading a log again and again.
const minCompactionBytes = 64 << 10

// minColdCacheBytes has room for what a reader has fetched ahead.
const minColdCacheBytes = (2 + coldReadAhead) * coldBlockBytes

// Validate reports all faults together.
func (c *Config) Validate() error {
	var faults []error
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	expect(c.Dir != "", "storage folder is empty, expected a path")
	expect(c.SegmentBytes >= minSegmentBytes && c.SegmentBytes <= maxSegmentBytes,
		"--segment-bytes is %d, expected %d to %d", c.SegmentBytes, minSegmentBytes, maxSegmentBytes)
	expect(c.FlushEveryRecords >= 1, "--flush-every-records is %d, expected 1 or more", c.FlushEveryRecords)
	expect(c.MaxMessageBytes >= 1024 && c.MaxMessageBytes <= 1<<30,
		"--max-message-bytes is %d, expected 1024 to %d", c.MaxMessageBytes, 1<<30)
	expect(c.Workers >= 1, "--storage-workers is %d, expected 1 or more", c.Workers)
	expect(c.MaxAwake >= 0, "--storage-max-awake is %d, expected 0 or more", c.MaxAwake)
	expect(c.MaxReadHandles >= 0, "--storage-max-read-handles is %d, expected 0 or more", c.MaxReadHandles)
	expect(c.IdleAfter >= 10*time.Millisecond, "--storage-idle-after is %s, expected 10ms or more", c.IdleAfter)
	expect(c.MaxAppendBytes >= int64(c.MaxMessageBytes),
		"--storage-max-append-bytes is %d, expected at least --max-message-bytes, %d", c.MaxAppendBytes, c.MaxMessageBytes)
	expect(c.MinFreeBytes >= 0, "--storage-min-free-bytes is %d, expected 0 or more", c.MinFreeBytes)
	expect(c.MaxProducers >= 1, "--storage-max-producers is %d, expected 1 or more", c.MaxProducers)
	expect(c.MaxFetchBytes >= 1, "--storage-max-fetch-bytes is %d, expected 1 or more", c.MaxFetchBytes)
	expect(c.MaxFetchWait >= 0, "--storage-max-fetch-wait is %s, expected 0 or more", c.MaxFetchWait)
	for name, interval := range map[string]time.Duration{
		"--retention-check-interval": c.RetentionInterval, "--compaction-check-interval": c.CompactionInterval,
		"--cold-check-interval": c.ColdInterval,
	} {
		expect(interval == 0 || interval >= 10*time.Millisecond, "%s is %s, expected 0, or 10ms or more", name, interval)
	}
	expect(c.DeleteGrace >= 0, "--segment-delete-grace is %s, expected 0 or more", c.DeleteGrace)
	expect(c.CompactionBytes >= minCompactionBytes, "--storage-compaction-bytes is %d, expected %d or more", c.CompactionBytes, minCompactionBytes)
	expect(c.ColdLocalRetentionMs >= node.AsRetention, "--cold-local-retention-ms is %d, expected -2 or more", c.ColdLocalRetentionMs)
	expect(c.ColdLocalRetentionBytes >= node.AsRetention, "--cold-local-retention-bytes is %d, expected -2 or more", c.ColdLocalRetentionBytes)
	expect(c.ColdUploads >= 1, "--cold-uploads is %d, expected 1 or more", c.ColdUploads)
	expect(c.ColdReads >= 1, "--cold-reads is %d, expected 1 or more", c.ColdReads)
	expect(c.ColdReadTimeout >= time.Millisecond, "--cold-read-timeout is %s, expected 1ms or more", c.ColdReadTimeout)
	expect(c.ColdCacheBytes >= minColdCacheBytes, "--cold-cache-bytes is %d, expected %d or more", c.ColdCacheBytes, minColdCacheBytes)
	expect(c.ColdSweepInterval >= time.Second, "--cold-sweep-interval is %s, expected 1s or more", c.ColdSweepInterval)
	return errors.Join(faults...)
}
