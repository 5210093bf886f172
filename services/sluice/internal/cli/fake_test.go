package cli

import (
	"bytes"
	"context"
	"hash/fnv"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// fake is a server of the public API that keeps its records in memory.
type fake struct {
	logv1.UnimplementedTopicServiceServer
	logv1.UnimplementedLogServiceServer
	logv1.UnimplementedGroupServiceServer

	address string
	// Sees every produce before it is done; an error refuses it.
	onProduce func(*logv1.ProduceRequest) error
	// What stands from here on cannot be read yet; 0 is no limit.
	stableEnd int

	mu struct {
		sync.Mutex
		topics  map[string]*fakeTopic
		commits map[string]map[string]map[int32]int64
		// Closed and replaced when records come.
		changed  chan struct{}
		produces int
		// What is told of partitions with which something is wrong, of any topic.
		unsound map[int32]*logv1.PartitionInfo
	}
}

type fakeTopic struct {
	partitions [][]*logv1.Record
	config     *logv1.TopicConfig
}

func startFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	f.mu.topics = map[string]*fakeTopic{}
	f.mu.commits = map[string]map[string]map[int32]int64{}
	f.mu.changed = make(chan struct{})
	f.serve(t, "127.0.0.1:0")
	return f
}

// serve starts a door for the fake and returns what stops it.
func (f *fake) serve(t *testing.T, address string) (stop func()) {
	t.Helper()
	var listener net.Listener
	// While nobody listens there, an address may be that of somebody's connection.
	require.Eventually(t, func() (ok bool) {
		var err error
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		return err == nil
	}, time.Minute, time.Millisecond)
	f.address = listener.Addr().String()
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessageBytes))
	logv1.RegisterTopicServiceServer(server, f)
	logv1.RegisterLogServiceServer(server, f)
	logv1.RegisterGroupServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with an error only when the test has stopped it.
		_ = server.Serve(listener)
	}()
	stop = func() {
		server.Stop()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// produced returns how many requests there were, and a partition's values.
func (f *fake) produced(topic string, partition int32) (requests int, values []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, record := range f.mu.topics[topic].partitions[partition] {
		values = append(values, string(record.GetValue()))
	}
	return f.mu.produces, values
}

func (f *fake) topicLocked(name string) (*fakeTopic, error) {
	topic, found := f.mu.topics[name]
	if !found {
		return nil, status.Errorf(codes.NotFound, "topic %q does not exist", name)
	}
	return topic, nil
}

func (f *fake) CreateTopic(_ context.Context, r *logv1.CreateTopicRequest) (*logv1.CreateTopicResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, found := f.mu.topics[r.GetName()]; found {
		return nil, status.Errorf(codes.AlreadyExists, "topic %q exists", r.GetName())
	}
	config := &logv1.TopicConfig{
		RetentionMs: proto.Int64(604800000), RetentionBytes: proto.Int64(-1), CleanupPolicy: proto.String("delete"),
		SegmentBytes: proto.Int64(1 << 30), TombstoneRetentionMs: proto.Int64(86400000),
	}
	proto.Merge(config, r.GetConfig())
	f.mu.topics[r.GetName()] = &fakeTopic{partitions: make([][]*logv1.Record, r.GetPartitions()), config: config}
	return &logv1.CreateTopicResponse{Name: r.GetName(), Partitions: r.GetPartitions()}, nil
}

func (f *fake) ListTopics(context.Context, *logv1.ListTopicsRequest) (*logv1.ListTopicsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	response := &logv1.ListTopicsResponse{}
	for name := range f.mu.topics {
		response.Topics = append(response.Topics, name)
	}
	slices.Sort(response.Topics)
	return response, nil
}

func (f *fake) GetTopic(_ context.Context, r *logv1.GetTopicRequest) (*logv1.GetTopicResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	topic, err := f.topicLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	response := &logv1.GetTopicResponse{Name: r.GetName(), Config: topic.config}
	for i, records := range topic.partitions {
		if unsound := f.mu.unsound[int32(i)]; unsound != nil {
			response.Partitions = append(response.Partitions, unsound)
			continue
		}
		response.Partitions = append(response.Partitions, &logv1.PartitionInfo{
			Id: int32(i), EndOffset: int64(len(records)), SegmentCount: 1, SizeBytes: 64, Leader: "node-1", LeaderEpoch: 2,
		})
	}
	return response, nil
}

func (f *fake) GetTopicConfig(_ context.Context, r *logv1.GetTopicConfigRequest) (*logv1.GetTopicConfigResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	topic, err := f.topicLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	return &logv1.GetTopicConfigResponse{Config: topic.config}, nil
}

func (f *fake) UpdateTopicConfig(_ context.Context, r *logv1.UpdateTopicConfigRequest) (*logv1.UpdateTopicConfigResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	topic, err := f.topicLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	config := proto.CloneOf(topic.config)
	proto.Merge(config, r.GetConfig())
	topic.config = config
	return &logv1.UpdateTopicConfigResponse{Config: config}, nil
}

func (f *fake) DeleteTopic(_ context.Context, r *logv1.DeleteTopicRequest) (*logv1.DeleteTopicResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	topic, err := f.topicLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	delete(f.mu.topics, r.GetName())
	return &logv1.DeleteTopicResponse{Name: r.GetName(), Partitions: int32(len(topic.partitions))}, nil
}

func (f *fake) Produce(_ context.Context, r *logv1.ProduceRequest) (*logv1.ProduceResponse, error) {
	if f.onProduce != nil {
		if err := f.onProduce(r); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	topic, err := f.topicLocked(r.GetTopic())
	if err != nil {
		return nil, err
	}
	f.mu.produces++
	response := &logv1.ProduceResponse{}
	for _, record := range r.GetRecords() {
		partition := record.GetPartition()
		if record.Partition == nil && record.Key != nil {
			hash := fnv.New32a()
			hash.Write(record.GetKey())
			partition = int32(hash.Sum32() % uint32(len(topic.partitions)))
		}
		offset := int64(len(topic.partitions[partition]))
		topic.partitions[partition] = append(topic.partitions[partition], &logv1.Record{
			Partition: partition, Offset: offset, TimestampMs: 1763500000000,
			Key: bytes.Clone(record.Key), Value: bytes.Clone(record.GetValue()),
		})
		response.Results = append(response.Results, &logv1.ProduceResult{Partition: partition, Offset: offset})
	}
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
	return response, nil
}

func (f *fake) Consume(ctx context.Context, r *logv1.ConsumeRequest) (*logv1.ConsumeResponse, error) {
	deadline, cancel := context.WithTimeout(ctx, time.Duration(r.GetMaxWaitMs())*time.Millisecond)
	defer cancel()
	for {
		response, changed, err := f.fetch(r)
		if err != nil || len(response.GetRecords()) > 0 {
			return response, err
		}
		select {
		case <-changed:
		case <-deadline.Done():
			return response, ctx.Err()
		}
	}
}

func (f *fake) fetch(r *logv1.ConsumeRequest) (*logv1.ConsumeResponse, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	topic, err := f.topicLocked(r.GetTopic())
	if err != nil {
		return nil, nil, err
	}
	all := topic.partitions[r.GetPartition()]
	if f.stableEnd > 0 {
		all = all[:f.stableEnd]
	}
	from := min(r.GetOffset(), int64(len(all)))
	records := all[from:]
	records = records[:min(len(records), int(r.GetMaxRecords()))]
	return &logv1.ConsumeResponse{
		Records: records, NextOffset: from + int64(len(records)), HighWatermark: int64(len(all)),
	}, f.mu.changed, nil
}

func (f *fake) CommitOffset(_ context.Context, r *logv1.CommitOffsetRequest) (*logv1.CommitOffsetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.topicLocked(r.GetTopic()); err != nil {
		return nil, err
	}
	group := f.mu.commits[r.GetGroup()]
	if group == nil {
		group = map[string]map[int32]int64{}
		f.mu.commits[r.GetGroup()] = group
	}
	if group[r.GetTopic()] == nil {
		group[r.GetTopic()] = map[int32]int64{}
	}
	group[r.GetTopic()][r.GetPartition()] = r.GetOffset()
	return &logv1.CommitOffsetResponse{}, nil
}

func (f *fake) GetOffsets(_ context.Context, r *logv1.GetOffsetsRequest) (*logv1.GetOffsetsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	response := &logv1.GetOffsetsResponse{Offsets: map[string]*logv1.PartitionOffsets{}}
	for topic, partitions := range f.mu.commits[r.GetGroup()] {
		offsets := &logv1.PartitionOffsets{Partitions: map[int32]int64{}}
		for partition, offset := range partitions {
			offsets.Partitions[partition] = offset
		}
		response.Offsets[topic] = offsets
	}
	return response, nil
}
