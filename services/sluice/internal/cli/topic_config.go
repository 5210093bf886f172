package cli

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

const unlimited = "unlimited"

// namedConfig is one of the configs that have a field of their own. All others
// travel as text.
type namedConfig struct {
	kafka string
	// The name in JSON.
	json string
	// Whether -1, written "unlimited" or JSON null, is without limit.
	limit bool
	// One of the two is set.
	number func(*logv1.TopicConfig) **int64
	text   func(*logv1.TopicConfig) **string
}

var namedConfigs = []namedConfig{
	{
		kafka: "retention.ms", json: "retention_ms", limit: true,
		number: func(c *logv1.TopicConfig) **int64 { return &c.RetentionMs },
	},
	{
		kafka: "retention.bytes", json: "retention_bytes", limit: true,
		number: func(c *logv1.TopicConfig) **int64 { return &c.RetentionBytes },
	},
	{
		kafka: "cleanup.policy", json: "cleanup_policy",
		text: func(c *logv1.TopicConfig) **string { return &c.CleanupPolicy },
	},
	{
		kafka: "segment.bytes", json: "segment_bytes",
		number: func(c *logv1.TopicConfig) **int64 { return &c.SegmentBytes },
	},
	{
		kafka: "delete.retention.ms", json: "tombstone_retention_ms",
		number: func(c *logv1.TopicConfig) **int64 { return &c.TombstoneRetentionMs },
	},
}

// parseTopicConfig reads NAME=VALUE settings, by Kafka's name or JSON's. It
// returns nil for none.
func parseTopicConfig(settings []string) (*logv1.TopicConfig, error) {
	if len(settings) == 0 {
		return nil, nil
	}
	config := &logv1.TopicConfig{}
	for _, setting := range settings {
		name, value, found := strings.Cut(setting, "=")
		if !found || name == "" {
			return nil, usagef("config %q: must be NAME=VALUE", setting)
		}
		if err := setTopicConfig(config, name, value); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func setTopicConfig(config *logv1.TopicConfig, name, value string) error {
	i := slices.IndexFunc(namedConfigs, func(n namedConfig) bool { return n.kafka == name || n.json == name })
	if i < 0 {
		if config.Kafka == nil {
			config.Kafka = map[string]string{}
		}
		config.Kafka[name] = value
		return nil
	}
	named := namedConfigs[i]
	if named.text != nil {
		*named.text(config) = &value
		return nil
	}
	number := int64(-1)
	if !named.limit || value != unlimited {
		var err error
		if number, err = strconv.ParseInt(value, 10, 64); err != nil {
			return usagef("config %s=%s: must be a whole number", name, value)
		}
	}
	*named.number(config) = &number
	return nil
}

func writeTopicConfig(out io.Writer, config *logv1.TopicConfig) error {
	var rows [][]string
	for _, named := range namedConfigs {
		switch {
		case named.text != nil:
			if value := *named.text(config); value != nil {
				rows = append(rows, []string{named.kafka, *value})
			}
		default:
			value := *named.number(config)
			switch {
			case value == nil:
			case named.limit && *value == -1:
				rows = append(rows, []string{named.kafka, unlimited})
			default:
				rows = append(rows, []string{named.kafka, strconv.FormatInt(*value, 10)})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.GetKafka())) {
		rows = append(rows, []string{name, config.GetKafka()[name]})
	}
	return writeTable(out, []string{"CONFIG", "VALUE"}, rows)
}

// viewTopicConfig is the config as the REST door shows it.
func viewTopicConfig(config *logv1.TopicConfig) map[string]any {
	view := map[string]any{}
	for _, named := range namedConfigs {
		if named.text != nil {
			view[named.json] = *named.text(config)
			continue
		}
		value := *named.number(config)
		if value != nil && named.limit && *value == -1 {
			value = nil
		}
		view[named.json] = value
	}
	for name, value := range config.GetKafka() {
		view[name] = value
	}
	return view
}

type topicView struct {
	Name       string          `json:"name"`
	Partitions []partitionView `json:"partitions"`
	Config     map[string]any  `json:"config"`
}

type partitionView struct {
	ID           int32  `json:"id"`
	StartOffset  int64  `json:"start_offset"`
	EndOffset    int64  `json:"end_offset"`
	SegmentCount int32  `json:"segment_count"`
	SizeBytes    int64  `json:"size_bytes"`
	Leader       string `json:"leader"`
	LeaderEpoch  int32  `json:"leader_epoch"`
	State        string `json:"state,omitempty"`
	Error        string `json:"error,omitempty"`
}

// viewTopic is the topic as the REST door shows it.
func viewTopic(topic *logv1.GetTopicResponse) topicView {
	view := topicView{
		Name:       topic.GetName(),
		Partitions: make([]partitionView, 0, len(topic.GetPartitions())),
		Config:     viewTopicConfig(topic.GetConfig()),
	}
	for _, p := range topic.GetPartitions() {
		view.Partitions = append(view.Partitions, partitionView{
			ID:           p.GetId(),
			StartOffset:  p.GetStartOffset(),
			EndOffset:    p.GetEndOffset(),
			SegmentCount: p.GetSegmentCount(),
			SizeBytes:    p.GetSizeBytes(),
			Leader:       p.GetLeader(),
			LeaderEpoch:  p.GetLeaderEpoch(),
			State:        p.GetState(),
			Error:        p.GetError(),
		})
	}
	return view
}
