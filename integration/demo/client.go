package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

const (
	topic      = "commits"
	group      = "historians"
	partitions = 4
	// Commits in a produce request.
	batch = 500
	// Most records in an answer, and so between two commits of offsets.
	maxFetch = 100
)

type client struct {
	conn   *grpc.ClientConn
	topics logv1.TopicServiceClient
	log    logv1.LogServiceClient
	groups logv1.GroupServiceClient
}

func dial(address string) (*client, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The server is killed on purpose; a call waits for the next one.
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}),
	)
	if err != nil {
		return nil, err
	}
	return &client{
		conn:   conn,
		topics: logv1.NewTopicServiceClient(conn),
		log:    logv1.NewLogServiceClient(conn),
		groups: logv1.NewGroupServiceClient(conn),
	}, nil
}

func (c *client) close() { c.conn.Close() }

// loading is what was loaded.
type loading struct {
	// Where each commit was acknowledged, by its hash.
	hashes       map[string]place
	authors      int
	bytes        int
	perPartition [partitions]int
	shallow      bool
}

type place struct {
	partition int32
	offset    int64
}

// load writes the history, a batch of commits at a time.
func (c *client) load(ctx context.Context, repository string) (*loading, error) {
	loaded := &loading{hashes: map[string]place{}}
	var err error
	if loaded.shallow, err = isShallow(ctx, repository); err != nil {
		return nil, err
	}
	_, err = c.topics.CreateTopic(ctx, &logv1.CreateTopicRequest{Name: topic, Partitions: new(int32(partitions))})
	if err != nil {
		return nil, fmt.Errorf("create topic %s: %w", topic, err)
	}
	authors := map[string]bool{}
	var waiting []commit
	send := func() error {
		if len(waiting) == 0 {
			return nil
		}
		err := c.produce(ctx, waiting, loaded)
		waiting = waiting[:0]
		return err
	}
	err = history(ctx, repository, func(event commit) error {
		authors[event.Email] = true
		waiting = append(waiting, event)
		if len(waiting) < batch {
			return nil
		}
		return send()
	})
	if err == nil {
		err = send()
	}
	loaded.authors = len(authors)
	return loaded, err
}

func (c *client) produce(ctx context.Context, events []commit, loaded *loading) error {
	request := &logv1.ProduceRequest{Topic: topic}
	for _, event := range events {
		value, err := json.Marshal(event)
		if err != nil {
			return err
		}
		loaded.bytes += len(value)
		request.Records = append(request.Records, &logv1.ProduceRecord{Key: []byte(event.Email), Value: value})
	}
	response, err := c.log.Produce(ctx, request)
	if err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	for i, result := range response.GetResults() {
		loaded.hashes[events[i].Hash] = place{result.GetPartition(), result.GetOffset()}
		loaded.perPartition[result.GetPartition()]++
	}
	return nil
}

// reading is what was read so far.
type reading struct {
	records int
	// Where each commit was.
	at map[string]place
}

// read reads all partitions in turn as the group, from its committed offsets, in
// answers of fetch records. It commits after each answer, but ends with the
// answer that reaches limit, if there is one, without that last commit: as a
// consumer that is cut off.
func (c *client) read(ctx context.Context, r *reading, fetch int32, limit int) error {
	for partition := range int32(partitions) {
		for {
			response, err := c.groups.ConsumeGroup(ctx, &logv1.ConsumeGroupRequest{
				Group: group, Topic: topic, Partition: &partition, MaxRecords: &fetch,
			})
			if err != nil {
				return fmt.Errorf("consume %s/%d: %w", topic, partition, err)
			}
			result := response.GetResult()
			if len(result.GetRecords()) == 0 {
				break
			}
			for _, record := range result.GetRecords() {
				if err := r.add(record); err != nil {
					return err
				}
			}
			if limit > 0 && r.records >= limit {
				return nil
			}
			_, err = c.groups.CommitOffset(ctx, &logv1.CommitOffsetRequest{
				Group: group, Topic: topic, Partition: &partition, Offset: &result.NextOffset,
			})
			if err != nil {
				return fmt.Errorf("commit %s/%d: %w", topic, partition, err)
			}
		}
	}
	return nil
}

func (r *reading) add(record *logv1.Record) error {
	var event commit
	if err := json.Unmarshal(record.GetValue(), &event); err != nil {
		return fmt.Errorf("record %d of %s/%d: %w", record.GetOffset(), topic, record.GetPartition(), err)
	}
	r.records++
	r.at[event.Hash] = place{record.GetPartition(), record.GetOffset()}
	return nil
}

// check compares what was read with what was acknowledged.
func (r *reading) check(loaded *loading) error {
	for hash, acknowledged := range loaded.hashes {
		switch at, found := r.at[hash]; {
		case !found:
			return fmt.Errorf("commit %s was acknowledged and is lost", hash)
		case at != acknowledged:
			return fmt.Errorf("commit %s was acknowledged at %v and read at %v", hash, acknowledged, at)
		}
	}
	if len(r.at) != len(loaded.hashes) {
		return fmt.Errorf("%d commits were written and %d read", len(loaded.hashes), len(r.at))
	}
	return nil
}
