package common

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/integration/cluster"
)

func dial(t *testing.T, address string) *grpc.ClientConn {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// produceOverGRPC makes a topic with one partition and appends a value to it.
func produceOverGRPC(t *testing.T, address, topic, value string) {
	conn := dial(t, address)
	_, err := logv1.NewTopicServiceClient(conn).CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: topic})
	require.NoError(t, err)
	_, err = logv1.NewLogServiceClient(conn).Produce(t.Context(), &logv1.ProduceRequest{
		Topic: topic, Records: []*logv1.ProduceRecord{{Value: []byte(value)}},
	})
	require.NoError(t, err)
}

func TestGRPC(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		produceOverGRPC(t, s.GRPC(), "t", "hello")
		conn := dial(t, s.GRPC())
		log := logv1.NewLogServiceClient(conn)

		partition, offset := int32(0), int64(0)
		page, err := log.Consume(t.Context(), &logv1.ConsumeRequest{Topic: "t", Partition: &partition, Offset: &offset})
		require.NoError(t, err)
		require.Len(t, page.Records, 1)
		require.Equal(t, "hello", string(page.Records[0].Value))
		require.Nil(t, page.Records[0].Key)

		_, err = log.Consume(t.Context(), &logv1.ConsumeRequest{Topic: "none", Partition: &partition, Offset: &offset})
		require.Equal(t, codes.NotFound, status.Code(err))
		_, err = log.Consume(t.Context(), &logv1.ConsumeRequest{Topic: "t", Offset: &offset})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		_, err = logv1.NewTopicServiceClient(conn).CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: "t"})
		require.Equal(t, codes.AlreadyExists, status.Code(err))

		groups := logv1.NewGroupServiceClient(conn)
		next := int64(1)
		_, err = groups.CommitOffset(t.Context(), &logv1.CommitOffsetRequest{Group: "g", Topic: "t", Partition: &partition, Offset: &next})
		require.NoError(t, err)
		offsets, err := groups.GetOffsets(t.Context(), &logv1.GetOffsetsRequest{Group: "g"})
		require.NoError(t, err)
		require.Equal(t, int64(1), offsets.Offsets["t"].Partitions[0])
	})
}

func TestGRPCHealthAndReflection(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		conn := dial(t, s.GRPC())
		health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		require.Equal(t, healthv1.HealthCheckResponse_SERVING, health.Status)

		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
		}))
		answer, err := stream.Recv()
		require.NoError(t, err)
		var names []string
		for _, service := range answer.GetListServicesResponse().GetService() {
			names = append(names, service.Name)
		}
		require.Subset(t, names, []string{"sluice.log.v1.TopicService", "sluice.log.v1.LogService", "sluice.log.v1.GroupService"})
		require.NotContains(t, names, "sluice.storage.v1.StorageService", "the inner services are not for everybody")
	})
}
