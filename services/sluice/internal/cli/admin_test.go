package cli

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// fakeAdmin answers what a server with one topic and one producer would.
type fakeAdmin struct {
	adminv1.UnimplementedAdminServiceServer
	// Whether the last pass had a deadline.
	hasDeadline bool
	// The last request to forget a producer.
	deleted *adminv1.DeleteProducerRequest
}

func startFakeAdmin(t *testing.T) (*fakeAdmin, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fakeAdmin{}
	server := grpc.NewServer()
	adminv1.RegisterAdminServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with an error only when the test has stopped it.
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return f, listener.Addr().String()
}

func (f *fakeAdmin) RunRetention(ctx context.Context, _ *adminv1.RunRetentionRequest) (*adminv1.RunRetentionResponse, error) {
	_, f.hasDeadline = ctx.Deadline()
	return &adminv1.RunRetentionResponse{}, nil
}

func (f *fakeAdmin) RunCompaction(context.Context, *adminv1.RunCompactionRequest) (*adminv1.RunCompactionResponse, error) {
	return nil, status.Error(codes.Unavailable, `node "b" has not finished`)
}

func (f *fakeAdmin) GetRaft(context.Context, *adminv1.GetRaftRequest) (*adminv1.GetRaftResponse, error) {
	return &adminv1.GetRaftResponse{Partitions: []*adminv1.RaftPartition{
		{Topic: "orders", Node: "a", Role: "leader", Term: 3, Leader: "a", CommitIndex: 7, LastIndex: 9, Replicas: []*adminv1.RaftReplica{
			{Node: "a", Role: "voter", MatchIndex: 9, NextIndex: 10, State: "replicate"},
			{Node: "b", Role: "voter", MatchIndex: 4, NextIndex: 5, State: "probe"},
		}},
		{Topic: "orders", Node: "b", Role: "damaged", Error: "the replica on node b is damaged"},
	}}, nil
}

func (f *fakeAdmin) ListProducers(context.Context, *adminv1.ListProducersRequest) (*adminv1.ListProducersResponse, error) {
	return &adminv1.ListProducersResponse{Producers: []*adminv1.Producer{
		{ProducerId: "checkout", Owner: "key_1", LastUsedMs: 1763500000000, Partitions: []*adminv1.ProducerPartition{
			{Topic: "orders", Partition: 0, LastSequence: 42, LastOffset: 142},
			{Topic: "orders", Partition: 1, LastSequence: 0, LastOffset: 0},
		}},
		{ProducerId: "idle", Owner: "key_2", LastUsedMs: 1763500000000},
	}}, nil
}

func (f *fakeAdmin) DeleteProducer(_ context.Context, r *adminv1.DeleteProducerRequest) (*adminv1.DeleteProducerResponse, error) {
	f.deleted = r
	if r.GetProducerId() != "checkout" {
		return nil, status.Errorf(codes.NotFound, "producer %q does not exist", r.GetProducerId())
	}
	return &adminv1.DeleteProducerResponse{}, nil
}

func (f *fakeAdmin) ResetOffsets(_ context.Context, r *adminv1.ResetOffsetsRequest) (*adminv1.ResetOffsetsResponse, error) {
	if r.GetTopic() != "orders" {
		return nil, status.Errorf(codes.NotFound, "topic %q does not exist", r.GetTopic())
	}
	return &adminv1.ResetOffsetsResponse{GroupsAffected: 1, EntriesReset: 2}, nil
}

func (f *fakeAdmin) ListTieredSegments(_ context.Context, r *adminv1.ListTieredSegmentsRequest) (*adminv1.ListTieredSegmentsResponse, error) {
	switch {
	case r.GetTopic() != "orders":
		return nil, status.Errorf(codes.NotFound, "topic %q does not exist", r.GetTopic())
	case r.GetPartition() != 1:
		return &adminv1.ListTieredSegmentsResponse{}, nil
	}
	return &adminv1.ListTieredSegmentsResponse{Segments: []*adminv1.TieredSegment{
		{BaseOffset: 0, LastOffset: 9, SizeBytes: 4096, UploadedAtMs: 1763500000000, MaxTimestampMs: 1763400000000, Object: "a"},
		{BaseOffset: 10, LastOffset: 30, SizeBytes: 512, UploadedAtMs: 1763500001000, MaxTimestampMs: 1763400000001, Object: "b", Local: true},
	}}, nil
}

func TestAdminTiered(t *testing.T) {
	_, server := startFakeAdmin(t)
	require.Equal(t, ""+
		"FIRST   LAST   BYTES   UPLOADED               ON DISK   OBJECT\n"+
		"0       9      4096    2025-11-18T21:06:40Z   no        a\n"+
		"10      30     512     2025-11-18T21:06:41Z   yes       b\n",
		succeed(t, server, "admin", "tiered", "orders", "1").out)
	require.JSONEq(t, `{"segments":[
		{"base_offset":0,"last_offset":9,"size_bytes":4096,"uploaded_at_ms":1763500000000,"max_timestamp_ms":1763400000000,"object":"a","local":false},
		{"base_offset":10,"last_offset":30,"size_bytes":512,"uploaded_at_ms":1763500001000,"max_timestamp_ms":1763400000001,"object":"b","local":true}
	]}`, succeed(t, server, "admin", "tiered", "orders", "1", "-o", "json").out)
	require.JSONEq(t, `{"segments":[]}`, succeed(t, server, "admin", "tiered", "orders", "0", "--output", "json").out)
	o := execute(t, server, "admin", "tiered", "none", "0")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `topic "none" does not exist`)
	for _, args := range [][]string{{"orders"}, {"orders", "x"}, {"orders", "0", "1"}, {"orders", "4294967296"}} {
		require.Equal(t, exitUsage, execute(t, server, append([]string{"admin", "tiered"}, args...)...).status, args)
	}
}

func TestAdminRaft(t *testing.T) {
	_, server := startFakeAdmin(t)
	require.Equal(t, ""+
		"TOPIC    PARTITION   NODE   ROLE      TERM   LEADER   COMMIT   LAST   REPLICAS\n"+
		"orders   0           a      leader    3      a        7        9      a:9 b:4:probe\n"+
		"orders   0           b      damaged   0      none     0        0      -\n"+
		"orders/0: the replica on node b is damaged\n",
		succeed(t, server, "admin", "raft").out)
	require.JSONEq(t, `{"partitions":[
		{"topic":"orders","partition":0,"node":"a","role":"leader","term":3,"leader":"a","commit_index":7,"last_index":9,"replicas":[
			{"node":"a","role":"voter","match_index":9,"next_index":10,"state":"replicate"},
			{"node":"b","role":"voter","match_index":4,"next_index":5,"state":"probe"}]},
		{"topic":"orders","partition":0,"node":"b","role":"damaged","term":0,"leader":"","commit_index":0,"last_index":0,"replicas":[],"error":"the replica on node b is damaged"}
	]}`, succeed(t, server, "admin", "raft", "--output", "json").out)
}

func TestAdminPasses(t *testing.T) {
	fake, server := startFakeAdmin(t)
	require.Equal(t, "the retention pass is done on every node\n", succeed(t, server, "admin", "run-retention").out)
	require.False(t, fake.hasDeadline, "a pass takes as long as it takes")
	succeed(t, server, "admin", "run-retention", "--timeout", "1m")
	require.True(t, fake.hasDeadline)

	o := execute(t, server, "admin", "run-compaction")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `node "b" has not finished`)
	require.Empty(t, o.out)
}

func TestAdminProducers(t *testing.T) {
	fake, server := startFakeAdmin(t)
	require.Equal(t, ""+
		"PRODUCER   OWNER   LAST USED              TOPIC    PARTITION   SEQUENCE   OFFSET\n"+
		"checkout   key_1   2025-11-18T21:06:40Z   orders   0           42         142\n"+
		"checkout   key_1   2025-11-18T21:06:40Z   orders   1           0          0\n"+
		"idle       key_2   2025-11-18T21:06:40Z   -        -           -          -\n",
		succeed(t, server, "admin", "producers", "list").out)
	require.JSONEq(t, `{"producers":[
		{"producer_id":"checkout","owner":"key_1","last_used_ms":1763500000000,"partitions":[
			{"topic":"orders","partition":0,"last_sequence":42,"last_offset":142},
			{"topic":"orders","partition":1,"last_sequence":0,"last_offset":0}]},
		{"producer_id":"idle","owner":"key_2","last_used_ms":1763500000000,"partitions":[]}
	]}`, succeed(t, server, "admin", "producers", "list", "-o", "json").out)

	require.Equal(t, "forgot producer checkout\n", succeed(t, server, "admin", "producers", "delete", "checkout").out)
	require.Nil(t, fake.deleted.Owner)
	succeed(t, server, "admin", "producers", "delete", "checkout", "--owner", "key_1")
	require.Equal(t, "key_1", fake.deleted.GetOwner())
	o := execute(t, server, "admin", "producers", "delete", "nobody")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `producer "nobody" does not exist`)
}

func (f *fakeAdmin) ListNodes(context.Context, *adminv1.ListNodesRequest) (*adminv1.ListNodesResponse, error) {
	return &adminv1.ListNodesResponse{Nodes: []*adminv1.Node{
		{Id: "a", Live: true, Roles: []string{"storage", "gateway"}, Rack: "r1", Replicas: 7},
		{Id: "b", Replicas: 2, DeletingTopics: 3},
		{Id: "c", Forgotten: true, Replicas: 1},
	}}, nil
}

func (f *fakeAdmin) ForgetNode(_ context.Context, r *adminv1.ForgetNodeRequest) (*adminv1.ForgetNodeResponse, error) {
	if !r.GetForce() {
		return nil, status.Errorf(codes.Aborted, "node %q has the only replica of partitions", r.GetNodeId())
	}
	return &adminv1.ForgetNodeResponse{LostTopics: []string{"orders"}}, nil
}

func TestAdminNodes(t *testing.T) {
	_, server := startFakeAdmin(t)
	require.Equal(t, ""+
		"NODE   STATE       ROLES             RACK   REPLICAS   DELETING\n"+
		"a      live        storage,gateway   r1     7          0\n"+
		"b      away        -                 -      2          3\n"+
		"c      forgotten   -                 -      1          0\n",
		succeed(t, server, "admin", "nodes").out)
	require.JSONEq(t, `{"nodes":[
		{"id":"a","live":true,"forgotten":false,"roles":["storage","gateway"],"rack":"r1","replicas":7,"deleting_topics":0},
		{"id":"b","live":false,"forgotten":false,"roles":[],"rack":"","replicas":2,"deleting_topics":3},
		{"id":"c","live":false,"forgotten":true,"roles":[],"rack":"","replicas":1,"deleting_topics":0}
	]}`, succeed(t, server, "admin", "nodes", "-o", "json").out)

	o := execute(t, server, "admin", "forget-node", "b")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "only replica")
	require.Equal(t, "forgot node b\norders has lost partitions\n", succeed(t, server, "admin", "forget-node", "b", "--force").out)
	require.Equal(t, exitUsage, execute(t, server, "admin", "forget-node").status)
}

func TestAdminResetOffsets(t *testing.T) {
	_, server := startFakeAdmin(t)
	for _, command := range [][]string{{"admin", "reset-offsets", "orders"}, {"group", "reset", "orders"}} {
		require.Equal(t, "orders: 2 offsets back at the first offset, in 1 group\n", succeed(t, server, command...).out)
		require.JSONEq(t, `{"groups_affected":1,"entries_reset":2}`, succeed(t, server, append(command, "-o", "json")...).out)
	}
	o := execute(t, server, "admin", "reset-offsets", "none")
	require.Equal(t, exitFailure, o.status)
	require.Equal(t, exitUsage, execute(t, server, "admin", "reset-offsets").status)
}
