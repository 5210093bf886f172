package node

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
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
// nothing can be refused any more.
func resolve(set map[string]string, defaults Defaults) *Config {
	config := &Config{
		SegmentBytes:       number(set, "segment.bytes", defaults.SegmentBytes),
		SegmentMs:          number(set, "segment.ms", (7 * 24 * time.Hour).Milliseconds()),
		MaxMessageBytes:    int(number(set, "max.message.bytes", int64(defaults.MaxMessageBytes))),
		Compacted:          strings.Contains(set["cleanup.policy"], "compact"),
		LogAppendTime:      set["message.timestamp.type"] == "LogAppendTime",
		TimestampBeforeMs:  number(set, "message.timestamp.before.max.ms", math.MaxInt64),
		TimestampAfterMs:   number(set, "message.timestamp.after.max.ms", time.Hour.Milliseconds()),
		IndexIntervalBytes: number(set, "index.interval.bytes", 4096),
		Deletes:            set["cleanup.policy"] == "" || strings.Contains(set["cleanup.policy"], "delete"),
		Retention: retain.Limits{
			Ms:    number(set, "retention.ms", (7 * 24 * time.Hour).Milliseconds()),
			Bytes: number(set, "retention.bytes", retain.Unlimited),
		},
		Compaction: retain.Compaction{
			MinLagMs:    number(set, "min.compaction.lag.ms", 0),
			MaxLagMs:    number(set, "max.compaction.lag.ms", math.MaxInt64),
			DirtyRatio:  ratio(set, "min.cleanable.dirty.ratio", 0.5),
			TombstoneMs: number(set, "delete.retention.ms", (24 * time.Hour).Milliseconds()),
		},
	}
	if config.Compacted {
		// What may wait no longer must be sealed by then, as in Kafka.
		config.SegmentMs = min(config.SegmentMs, config.Compaction.MaxLagMs)
	}
	config.Tiered = (set["cleanup.policy"] == "" || set["cleanup.policy"] == "delete") &&
		set["remote.storage.enable"] != "false" && set["remote.log.copy.disable"] != "true"
	config.Local = retain.Limits{
		Ms:    local(set, "local.retention.ms", defaults.Local.Ms, config.Retention.Ms),
		Bytes: local(set, "local.retention.bytes", defaults.Local.Bytes, config.Retention.Bytes),
	}
	// "producer", which is no codec, leaves Codec nil.
	if codec, err := recordbatch.ParseCodec(set["compression.type"]); err == nil {
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

func number(set map[string]string, name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(set[name], 10, 64); err == nil {
		return n
	}
	return otherwise
}

func ratio(set map[string]string, name string, otherwise float64) float64 {
	if r, err := strconv.ParseFloat(set[name], 64); err == nil {
		return r
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
