package node

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/topicconfig"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
)

// topic is what the partitions of a topic share.
type topic struct {
	id       uuid.UUID
	name     string
	internal bool
	config   atomic.Pointer[Config]

	// folder is whether the topic's folder and its name are durable.
	folder struct {
		sync.Mutex
		made bool
		// failed is a sync that failed: asking again would prove nothing.
		failed error
	}
}

// makeFolder makes the topic's folder, durably. A log makes its own folder in it,
// and syncs no more than that one's name.
func (t *topic) makeFolder(n *Node) error {
	t.folder.Lock()
	defer t.folder.Unlock()
	if t.folder.made || t.folder.failed != nil {
		return t.folder.failed
	}
	if err := n.options.FS.MkdirAll(n.topicFolder(t.id.String())); err != nil {
		return fmt.Errorf("make topic folder: %w", err)
	}
	if err := n.options.FS.SyncDir(filepath.Join(n.options.Dir, topicsFolder)); err != nil {
		t.folder.failed = fmt.Errorf("%w: folder of topics: %w", raftlog.ErrSyncFailed, err)
		return t.folder.failed
	}
	t.folder.made = true
	return nil
}

// Config is the part of a topic's config that storage acts on, resolved.
type Config struct {
	// SegmentBytes is the size at which the active segment is sealed.
	SegmentBytes int64
	// SegmentMs is the age in milliseconds at which it is sealed.
	SegmentMs int64
	// MaxMessageBytes bounds one batch.
	MaxMessageBytes int
	// Compacted topics take no record without a key.
	Compacted bool
	// LogAppendTime has the leader set timestamps.
	LogAppendTime bool
	// TimestampBeforeMs and TimestampAfterMs bound how far a timestamp may be
	// from the leader's clock, in milliseconds.
	TimestampBeforeMs, TimestampAfterMs int64
	// Codec is what batches are compressed with; nil leaves the producer's.
	Codec *recordbatch.Codec
	// IndexIntervalBytes is the distance of index entries.
	IndexIntervalBytes int64

	// Deletes says that retention applies.
	Deletes bool
	// Retention is how long and how much is kept where it does.
	Retention retain.Limits
	// Compaction says what is cleaned, and when, where Compacted.
	Compaction retain.Compaction
	// Tiered says that sealed segments go to cold storage, if the node has any:
	// those of topics that are not compacted.
	Tiered bool
	// Local is how long and how much of what is in cold storage stays on disk.
	Local retain.Limits
}

// Defaults are the configs of a topic that sets none.
type Defaults struct {
	SegmentBytes    int64
	MaxMessageBytes int
	// Local is local.retention.ms and local.retention.bytes; AsRetention is the
	// topic's retention.
	Local retain.Limits
}

// AsRetention is the local.retention.ms and the local.retention.bytes that are
// the topic's retention.ms and retention.bytes.
const AsRetention int64 = -2

// resolve reads a topic's set configs, under Kafka's names. The coordinator has
// checked them; a value that cannot be read falls back to the default, since
// nothing can be refused any more. Package topicconfig has the defaults that are not
// the node's.
func resolve(set map[string]string, defaults Defaults) *Config {
	whole := func(name string) int64 { return topicconfig.Int(set, name) }
	config := &Config{
		SegmentBytes:       number(set, "segment.bytes", defaults.SegmentBytes),
		SegmentMs:          whole("segment.ms"),
		MaxMessageBytes:    int(number(set, "max.message.bytes", int64(defaults.MaxMessageBytes))),
		Compacted:          topicconfig.Compacts(set),
		LogAppendTime:      topicconfig.Text(set, "message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMs:  whole("message.timestamp.before.max.ms"),
		TimestampAfterMs:   whole("message.timestamp.after.max.ms"),
		IndexIntervalBytes: whole("index.interval.bytes"),
		Deletes:            topicconfig.Deletes(set),
		Retention:          retain.Limits{Ms: whole("retention.ms"), Bytes: whole("retention.bytes")},
		Compaction: retain.Compaction{
			MinLagMs:    whole("min.compaction.lag.ms"),
			MaxLagMs:    whole("max.compaction.lag.ms"),
			DirtyRatio:  topicconfig.Float(set, "min.cleanable.dirty.ratio"),
			TombstoneMs: whole("delete.retention.ms"),
		},
		Tiered: topicconfig.Tiered(set),
	}
	if config.Compacted {
		// What may wait no longer must be sealed by then, as in Kafka.
		config.SegmentMs = min(config.SegmentMs, config.Compaction.MaxLagMs)
	}
	config.Local = retain.Limits{
		Ms:    local(set, "local.retention.ms", defaults.Local.Ms, config.Retention.Ms),
		Bytes: local(set, "local.retention.bytes", defaults.Local.Bytes, config.Retention.Bytes),
	}
	// "producer", which is no codec, leaves Codec nil.
	if codec, err := recordbatch.ParseCodec(topicconfig.Text(set, "compression.type")); err == nil {
		config.Codec = &codec
	}
	return config
}

// local is a limit of what stays on disk.
func local(set map[string]string, name string, otherwise, retention int64) int64 {
	n := number(set, name, AsRetention)
	if n == AsRetention {
		n = otherwise
	}
	if n == AsRetention {
		n = retention
	}
	return n
}

// number is a config whose default is the node's.
func number(set map[string]string, name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(set[name], 10, 64); err == nil {
		return n
	}
	return otherwise
}

// newTopic makes a topic from the catalog's record of it.
func newTopic(record *persistv1.CatalogTopic, defaults Defaults) (*topic, error) {
	id, err := uuid.FromBytes(record.GetTopicId())
	if err != nil {
		return nil, err
	}
	t := &topic{id: id, name: record.GetName(), internal: record.GetInternal()}
	t.config.Store(resolve(record.GetConfig(), defaults))
	return t, nil
}
