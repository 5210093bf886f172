package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

func TestProduceAsAProducerSendsAgain(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "logs", "--partitions", "2")
	var sent [][]int64
	server.onProduce = func(r *logv1.ProduceRequest) error {
		require.Equal(t, "p", r.GetProducerId())
		var sequences []int64
		for _, record := range r.GetRecords() {
			require.EqualValues(t, 1, record.GetPartition())
			sequences = append(sequences, record.GetSequence())
		}
		sent = append(sent, sequences)
		if len(sent)%2 == 1 {
			return status.Error(codes.Unavailable, "not just now")
		}
		return nil
	}
	o := executeReading(t, server.address, strings.NewReader(strings.Repeat("x\n", 200)),
		"produce", "logs", "--producer-id", "p", "--partition", "1", "--first-sequence", "40")
	require.Zero(t, o.status, o.err)
	_, values := server.produced("logs", 1)
	require.Len(t, values, 200)
	var numbers []int64
	for i := 0; i < len(sent); i += 2 {
		require.Equal(t, sent[i], sent[i+1], "the same again")
		require.LessOrEqual(t, len(sent[i]), 128)
		numbers = append(numbers, sent[i]...)
	}
	require.Len(t, numbers, 200)
	require.True(t, slices.IsSorted(numbers))
	require.EqualValues(t, 40, numbers[0])
	require.EqualValues(t, 239, numbers[199])

	server.onProduce = func(*logv1.ProduceRequest) error { return status.Error(codes.InvalidArgument, "sequence gap") }
	sent = nil
	o = execute(t, server.address, "produce", "logs", "--producer-id", "p", "--partition", "1", "x")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "sequence gap")
	server.onProduce = func(*logv1.ProduceRequest) error { return status.Error(codes.Unavailable, "gone") }
	o = execute(t, server.address, "produce", "logs", "--producer-id", "p", "--partition", "1", "--timeout", "50ms", "x")
	require.Equal(t, exitFailure, o.status)
}

func TestProducerFlagsThatDoNotGoTogether(t *testing.T) {
	for _, args := range [][]string{
		{"--producer-id", "p"},
		{"--first-sequence", "3"},
		{"--producer-id", "p", "--partition", "0", "--first-sequence", "-1"},
	} {
		o := execute(t, "127.0.0.1:1", append([]string{"produce", "logs", "x"}, args...)...)
		require.Equal(t, exitUsage, o.status, "%v: %s", args, o.err)
	}
}
