package gateway_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway"
)

// Connections beyond the limit wait until others have gone, on this door too.
func TestGRPCConnectionsAreLimited(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.MaxConnections = 2 })
	open := func() net.Conn {
		conn, err := net.Dial("tcp", s.service.GRPCAddr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	one, two := open(), open()
	listed := make(chan error, 1)
	client := logv1.NewTopicServiceClient(dial(t, s))
	go func() {
		_, err := client.ListTopics(t.Context(), &logv1.ListTopicsRequest{})
		listed <- err
	}()
	select {
	case err := <-listed:
		require.Fail(t, "a third connection is served", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, one.Close())
	require.NoError(t, <-listed)
	require.NoError(t, two.Close())
}

// A read that waits over gRPC is one that waits: it is answered by what comes.
func TestGRPCReadsWait(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	log := logv1.NewLogServiceClient(dial(t, s))
	type result struct {
		resp *logv1.ConsumeResponse
		err  error
	}
	got := make(chan result, 1)
	go func() {
		resp, err := log.Consume(t.Context(), &logv1.ConsumeRequest{Topic: "t", Partition: proto.Int32(0), Offset: proto.Int64(0), MaxWaitMs: proto.Int32(30000)})
		got <- result{resp, err}
	}()
	require.Eventually(t, func() bool {
		waiting := 0
		for _, node := range s.Storage {
			for _, f := range node.Fetches() {
				if f.GetMaxWaitMs() == 30000 {
					waiting++
				}
			}
		}
		return waiting == 1
	}, eventually, tick)
	_, err := log.Produce(t.Context(), &logv1.ProduceRequest{Topic: "t", Records: []*logv1.ProduceRecord{{Value: []byte("x")}}})
	require.NoError(t, err)
	answered := <-got
	require.NoError(t, answered.err)
	require.Len(t, answered.resp.GetRecords(), 1)
}

// A key that the gateway does not remember is asked for, and what it may do holds.
func TestGRPCKeys(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.Authenticated = true })
	s.Registry.Require(map[string]*registryv1.Principal{"esk_admin": {Id: "key_1", Admin: true}, "esk_none": {Id: "key_2"}})
	topics := logv1.NewTopicServiceClient(dial(t, s))
	for secret, want := range map[string]codes.Code{"": codes.Unauthenticated, "esk_bad": codes.Unauthenticated, "esk_none": codes.PermissionDenied, "esk_admin": codes.OK} {
		for header, value := range map[string]string{"x-es-key": secret, "authorization": "Bearer " + secret} {
			if secret == "" {
				value = ""
			}
			_, err := topics.CreateTopic(metadata.AppendToOutgoingContext(t.Context(), header, value), &logv1.CreateTopicRequest{Name: header})
			require.Equal(t, want, status.Code(err), "%s %q: %v", header, secret, err)
		}
	}
}
