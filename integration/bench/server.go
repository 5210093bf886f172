package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// topic is the topic of every benchmark.
const topic = "bench"

// server is a Sluice process with a topic.
type server struct {
	*cluster.Process
	api *httpapi.Client
}

func newServer(b testing.TB, partitions int) server {
	b.Helper()
	s := server{Process: cluster.NewProcess(b, cluster.Options{})}
	cluster.Start(b, s)
	s.api = httpapi.New(s.HTTP())
	b.Cleanup(s.api.Close)
	require.NoError(b, s.api.CreateTopic(b.Context(), topic, partitions, nil))
	return s
}

func (s server) process() process { return process{"sluice", s.PID()} }

// dial returns connections of their own, so that callers do not share one.
func (s server) dial(b testing.TB, n int) []logv1.LogServiceClient {
	clients := make([]logv1.LogServiceClient, n)
	for i := range clients {
		conn, err := grpc.NewClient(s.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, conn.Close()) })
		clients[i] = logv1.NewLogServiceClient(conn)
	}
	return clients
}

// produceRequest makes a request with records of the same size for partition 0.
func produceRequest(records, size int) *logv1.ProduceRequest {
	partition := int32(0)
	request := &logv1.ProduceRequest{Topic: topic}
	for range records {
		request.Records = append(request.Records, &logv1.ProduceRecord{Value: letters(size), Partition: &partition})
	}
	return request
}
