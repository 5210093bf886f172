package kafkapeer_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluiceio/sluice/integration/kafkapeer"
)

func TestBrokerKeepsRecordsOverRestart(t *testing.T) {
	kafka := kafkapeer.Require(t)
	broker := kafka.NewBroker(t, map[string]string{"flush.messages": "1"})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, broker.Start(ctx))

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Address()), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr())
	client.Close()

	require.NoError(t, broker.Stop())
	require.NoError(t, broker.Start(ctx))
	client, err = kgo.NewClient(kgo.SeedBrokers(broker.Address()), kgo.ConsumeTopics("t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer client.Close()
	fetched := client.PollFetches(ctx)
	require.NoError(t, fetched.Err())
	require.Equal(t, "hello", string(fetched.Records()[0].Value))

	dump, err := kafka.Run(ctx, kafkapeer.DumpLogSegments, "--deep-iteration", "--print-data-log",
		"--files", filepath.Join(broker.DataDir(), "t-0", "00000000000000000000.log"))
	require.NoError(t, err)
	require.Contains(t, dump, "payload: hello")
}
