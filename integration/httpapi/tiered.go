package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Tiered is a segment in cold storage.
type Tiered struct {
	BaseOffset     int64  `json:"base_offset"`
	LastOffset     int64  `json:"last_offset"`
	SizeBytes      int64  `json:"size_bytes"`
	UploadedAtMs   int64  `json:"uploaded_at_ms"`
	MaxTimestampMs int64  `json:"max_timestamp_ms"`
	Object         string `json:"object"`
	Local          bool   `json:"local"`
}

// Tiered lists what a partition has in cold storage.
func (c *Client) Tiered(ctx context.Context, topic string, partition int) ([]Tiered, error) {
	var out struct {
		Segments []Tiered `json:"segments"`
	}
	err := c.call(ctx, http.MethodGet, "/admin/tiered/"+url.PathEscape(topic)+"/"+strconv.Itoa(partition), nil, &out)
	return out.Segments, err
}

// RunRetention runs a retention pass.
func (c *Client) RunRetention(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/admin/run-retention", nil, nil)
}

// Configure sets configs of a topic.
func (c *Client) Configure(ctx context.Context, topic string, config map[string]any) error {
	return c.call(ctx, http.MethodPut, "/topics/"+url.PathEscape(topic)+"/config", config, nil)
}

// DeleteTopic deletes a topic.
func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	return c.call(ctx, http.MethodDelete, "/topics/"+url.PathEscape(topic), nil, nil)
}
