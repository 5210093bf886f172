// Package topicconf translates between the config of a topic as the public API
// shows it and as the cluster keeps it, under Kafka's names:
//
//	retention_ms            retention.ms
//	retention_bytes         retention.bytes
//	cleanup_policy          cleanup.policy
//	segment_bytes           segment.bytes
//	tombstone_retention_ms  delete.retention.ms
//
// Package kit/topicconfig has the defaults. Which values a config takes is the
// coordinator's business.
package topicconf

import (
	"maps"
	"strconv"

	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/partitioner"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/topicconfig"
)

// Kafka's names of what the gateway itself reads.
const (
	retentionMs       = "retention.ms"
	retentionBytes    = "retention.bytes"
	cleanupPolicy     = "cleanup.policy"
	segmentBytes      = "segment.bytes"
	deleteRetentionMs = "delete.retention.ms"
	maxMessageBytes   = "max.message.bytes"
	keyHash           = "sluice.key.hash"
)

// Defaults are the values of configs that a topic does not set, as far as they
// are not the same everywhere.
type Defaults struct {
	// SegmentBytes is the default segment.bytes of the storage nodes.
	SegmentBytes int64
}

// ToKafka returns the configs that c sets, under Kafka's names. A config that is
// set both ways is refused.
func ToKafka(c *logv1.TopicConfig) (map[string]string, error) {
	if c == nil {
		return nil, nil
	}
	set := maps.Clone(c.GetKafka())
	if set == nil {
		set = make(map[string]string)
	}
	put := func(field, name, value string) error {
		if _, ok := set[name]; ok {
			return errs.New(errs.InvalidArgument, "INVALID_CONFIG", "%s and %s are the same config, give one of them", field, name)
		}
		set[name] = value
		return nil
	}
	for _, f := range []struct {
		field, name string
		value       *int64
	}{
		{"retention_ms", retentionMs, c.RetentionMs},
		{"retention_bytes", retentionBytes, c.RetentionBytes},
		{"segment_bytes", segmentBytes, c.SegmentBytes},
		{"tombstone_retention_ms", deleteRetentionMs, c.TombstoneRetentionMs},
	} {
		if f.value == nil {
			continue
		}
		if err := put(f.field, f.name, strconv.FormatInt(*f.value, 10)); err != nil {
			return nil, err
		}
	}
	if c.CleanupPolicy != nil {
		if err := put("cleanup_policy", cleanupPolicy, *c.CleanupPolicy); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// Resolve returns the config as the public API shows it: the five fields, set or
// by default, and what else is set.
func (d Defaults) Resolve(set map[string]string) *logv1.TopicConfig {
	c := &logv1.TopicConfig{Kafka: maps.Clone(set)}
	whole := func(name string) *int64 {
		delete(c.Kafka, name)
		return proto.Int64(topicconfig.Int(set, name))
	}
	c.RetentionMs = whole(retentionMs)
	c.RetentionBytes = whole(retentionBytes)
	c.TombstoneRetentionMs = whole(deleteRetentionMs)
	c.SegmentBytes = proto.Int64(d.SegmentBytes)
	if _, ok := set[segmentBytes]; ok {
		c.SegmentBytes = whole(segmentBytes)
	}
	c.CleanupPolicy = proto.String(topicconfig.Text(set, cleanupPolicy))
	delete(c.Kafka, cleanupPolicy)
	return c
}

// Compacted says whether a topic keeps the newest record of each key, so that a
// record without one cannot be written to it.
func Compacted(set map[string]string) bool {
	return topicconfig.Compacts(set)
}

// KeyHash returns how a topic's keys find their partitions.
func KeyHash(set map[string]string) partitioner.Hash {
	return partitioner.Named(set[keyHash])
}

// MaxMessageBytes returns the largest batch that a topic takes, when its config
// says so.
func MaxMessageBytes(set map[string]string) (limit int, ok bool) {
	n, err := strconv.ParseInt(set[maxMessageBytes], 10, 32)
	return int(n), err == nil
}
