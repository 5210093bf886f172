package cli

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// fakeGroup is a server with one group of one member.
type fakeGroup struct {
	logv1.UnimplementedGroupServiceServer
	topics []string
}

func (f *fakeGroup) assignment() []*logv1.TopicPartition {
	var list []*logv1.TopicPartition
	for _, topic := range f.topics {
		list = append(list, &logv1.TopicPartition{Topic: topic, Partition: 1})
	}
	return list
}

func (f *fakeGroup) JoinGroup(_ context.Context, r *logv1.JoinGroupRequest) (*logv1.JoinGroupResponse, error) {
	f.topics = r.GetTopics()
	id := "m_1"
	if r.MemberId != nil {
		id = r.GetMemberId()
	}
	return &logv1.JoinGroupResponse{MemberId: id, Generation: 3, Assignment: f.assignment()}, nil
}

func (f *fakeGroup) Heartbeat(_ context.Context, r *logv1.HeartbeatRequest) (*logv1.HeartbeatResponse, error) {
	if r.GetGeneration() == 3 {
		return &logv1.HeartbeatResponse{Status: "ok", Generation: proto.Int64(3)}, nil
	}
	return &logv1.HeartbeatResponse{Status: "rebalance_required", CurrentGeneration: proto.Int64(3)}, nil
}

func (f *fakeGroup) DeleteGroup(_ context.Context, r *logv1.DeleteGroupRequest) (*logv1.DeleteGroupResponse, error) {
	if len(f.topics) > 0 {
		return nil, status.Errorf(codes.Aborted, "the group %q still has members", r.GetGroup())
	}
	return &logv1.DeleteGroupResponse{}, nil
}

func (f *fakeGroup) LeaveGroup(context.Context, *logv1.LeaveGroupRequest) (*logv1.LeaveGroupResponse, error) {
	f.topics = nil
	return &logv1.LeaveGroupResponse{}, nil
}

func (f *fakeGroup) GetAssignment(_ context.Context, r *logv1.GetAssignmentRequest) (*logv1.GetAssignmentResponse, error) {
	if r.GetMemberId() != "m_1" {
		return nil, status.Errorf(codes.NotFound, "the group %q has no member %q", r.GetGroup(), r.GetMemberId())
	}
	return &logv1.GetAssignmentResponse{Generation: 3, Assignment: f.assignment()}, nil
}

func startFakeGroup(t *testing.T) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	f := &fakeGroup{}
	logv1.RegisterGroupServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}

func TestMembersOfAGroup(t *testing.T) {
	address := startFakeGroup(t)
	require.Equal(t, "member m_1, generation 3\n\nTOPIC     PARTITION\norders    1\nbilling   1\n",
		succeed(t, address, "group", "join", "g", "--topic", "orders", "--topic", "billing").out)
	want := `{"member_id":"m_1","generation":3,"assignment":[{"topic":"orders","partition":1}]}`
	require.JSONEq(t, want, succeed(t, address, "group", "join", "g", "--topic", "orders", "--member", "m_1", "-o", "json").out)
	require.JSONEq(t, want, succeed(t, address, "group", "assignment", "g", "--member", "m_1", "-o", "json").out)
	require.Equal(t, "ok, generation 3\n", succeed(t, address, "group", "heartbeat", "g", "--member", "m_1", "--generation", "3").out)
	require.Equal(t, "rebalance_required, generation 3\n", succeed(t, address, "group", "heartbeat", "g", "--member", "m_1", "--generation", "2").out)
	require.JSONEq(t, `{"status":"rebalance_required","current_generation":3}`,
		succeed(t, address, "group", "heartbeat", "g", "--member", "m_1", "--generation", "2", "-o", "json").out)
	require.Equal(t, "m_1 is no member of g\n", succeed(t, address, "group", "leave", "g", "--member", "m_1").out)
	o := execute(t, address, "group", "assignment", "g", "--member", "m_2")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `the group "g" has no member "m_2"`)
	require.Equal(t, exitUsage, execute(t, address, "group", "join", "g").status)
}

func TestAGroupIsDeleted(t *testing.T) {
	address := startFakeGroup(t)
	succeed(t, address, "group", "join", "g", "--topic", "orders")
	o := execute(t, address, "group", "delete", "g")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `the group "g" still has members`)
	succeed(t, address, "group", "leave", "g", "--member", "m_1")
	require.Equal(t, "deleted g\n", succeed(t, address, "group", "delete", "g").out)
	require.Equal(t, exitUsage, execute(t, address, "group", "delete").status)
}
