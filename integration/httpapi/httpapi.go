// Package httpapi is a client of the HTTP API for tests: it shows statuses and
// bytes as they come.
package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Client talks to one server. It may be used by several goroutines.
type Client struct {
	// Base is the server's URL, without a slash at its end.
	Base string
	HTTP *http.Client
}

// New returns a client with connections of its own.
func New(base string) *Client {
	return &Client{Base: base, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Answer is an answer with its whole body.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error is an answer that is not a success.
type Error struct {
	Status int
	// Message is what "error" says in the body, or the body.
	Message string
}

// Error describes the answer.
func (e *Error) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// Do sends a request. A nil body is none. Every status is an Answer; an error
// says that there was no answer.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("%s %s: body: %w", method, path, err)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: got}, nil
}

// call sends a message as JSON and reads one. in or out may be nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	answer, err := c.Do(ctx, method, path, body)
	if err != nil {
		return err
	}
	if answer.Status/100 != 2 {
		return fmt.Errorf("%s %s: %w", method, path, answer.failure())
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		return fmt.Errorf("%s %s: %w: %q", method, path, err, answer.Body)
	}
	return nil
}

func (a Answer) failure() *Error {
	var body struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || body.Error == "" {
		return &Error{a.Status, string(a.Body)}
	}
	return &Error{a.Status, body.Error}
}

// CreateTopic makes a topic. config may be nil.
func (c *Client) CreateTopic(ctx context.Context, name string, partitions int, config map[string]any) error {
	return c.call(ctx, http.MethodPost, "/topics",
		map[string]any{"name": name, "partitions": partitions, "config": config}, nil)
}

// Partition describes a partition.
type Partition struct {
	ID           int   `json:"id"`
	StartOffset  int64 `json:"start_offset"`
	EndOffset    int64 `json:"end_offset"`
	SegmentCount int   `json:"segment_count"`
	SizeBytes    int64 `json:"size_bytes"`
	// Leader is the id of the node that leads, empty when nobody is known to.
	Leader string `json:"leader"`
}

// Topic describes a topic.
func (c *Client) Topic(ctx context.Context, name string) ([]Partition, error) {
	var out struct {
		Partitions []Partition `json:"partitions"`
	}
	err := c.call(ctx, http.MethodGet, "/topics/"+url.PathEscape(name), nil, &out)
	return out.Partitions, err
}

// Record is a record to produce. Nil fields are left out.
type Record struct {
	Key       *string `json:"key,omitempty"`
	Value     string  `json:"value"`
	Partition *int    `json:"partition,omitempty"`
	Sequence  *int64  `json:"sequence,omitempty"`
}

// To returns a record without a key for a partition.
func To(partition int, value string) Record { return Record{Value: value, Partition: &partition} }

// Produced says where a record stands.
type Produced struct {
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
	Duplicate bool  `json:"duplicate"`
}

// Produce appends records.
func (c *Client) Produce(ctx context.Context, topic string, records []Record) ([]Produced, error) {
	var out struct {
		Results []Produced `json:"results"`
	}
	err := c.call(ctx, http.MethodPost, "/topics/"+url.PathEscape(topic)+"/produce",
		map[string]any{"records": records}, &out)
	return out.Results, err
}

// ProduceAs appends the records of an idempotent producer.
func (c *Client) ProduceAs(ctx context.Context, producer, topic string, records []Record) ([]Produced, error) {
	var out struct {
		Results []Produced `json:"results"`
	}
	err := c.call(ctx, http.MethodPost, "/topics/"+url.PathEscape(topic)+"/produce",
		map[string]any{"producer_id": producer, "records": records}, &out)
	return out.Results, err
}

// Consumed is a record as it is read.
type Consumed struct {
	Partition   int     `json:"partition"`
	Offset      int64   `json:"offset"`
	TimestampMs int64   `json:"timestamp_ms"`
	Key         *string `json:"key"`
	Value       string  `json:"value"`
}

// Page is what one read returns.
type Page struct {
	Records       []Consumed `json:"records"`
	NextOffset    int64      `json:"next_offset"`
	HighWatermark int64      `json:"high_watermark"`
}

// Most that one read may ask for by default.
const (
	MaxRecords = 10_000
	MaxBytes   = 8 << 20
)

// Consume reads as much of a partition from an offset as one answer holds.
func (c *Client) Consume(ctx context.Context, topic string, partition int, offset int64) (Page, error) {
	query := url.Values{
		"partition":   {strconv.Itoa(partition)},
		"offset":      {strconv.FormatInt(offset, 10)},
		"max_records": {strconv.Itoa(MaxRecords)},
		"max_bytes":   {strconv.Itoa(MaxBytes)},
	}
	var page Page
	err := c.call(ctx, http.MethodGet, "/topics/"+url.PathEscape(topic)+"/consume?"+query.Encode(), nil, &page)
	return page, err
}

// ReadFrom reads a partition from an offset to its end.
func (c *Client) ReadFrom(ctx context.Context, topic string, partition int, offset int64) ([]Consumed, error) {
	var all []Consumed
	for {
		page, err := c.Consume(ctx, topic, partition, offset)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Records...)
		if page.NextOffset >= page.HighWatermark {
			return all, nil
		}
		if page.NextOffset <= offset {
			return nil, fmt.Errorf("%s/%d: read at %d of %d made no progress", topic, partition, offset, page.HighWatermark)
		}
		offset = page.NextOffset
	}
}

// Commit records the next offset that a group reads.
func (c *Client) Commit(ctx context.Context, group, topic string, partition int, offset int64) error {
	return c.call(ctx, http.MethodPost, "/groups/"+url.PathEscape(group)+"/commit",
		map[string]any{"topic": topic, "partition": partition, "offset": offset}, nil)
}

// Offsets returns a group's committed offsets by topic and partition.
func (c *Client) Offsets(ctx context.Context, group string) (map[string]map[int]int64, error) {
	var out struct {
		Offsets map[string]map[int]int64 `json:"offsets"`
	}
	err := c.call(ctx, http.MethodGet, "/groups/"+url.PathEscape(group)+"/offsets", nil, &out)
	return out.Offsets, err
}
