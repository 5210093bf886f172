package group

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/assign"
)

func TestSharesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := assign.Partitions{}
		for i := range rapid.IntRange(0, 3).Draw(t, "topics") {
			list := rapid.SliceOfNDistinct(rapid.Int32Range(0, 50), 1, 40, rapid.ID).Draw(t, "partitions")
			slices.Sort(list)
			share[topic(i)] = list
		}
		require.Equal(t, share, decodeShare(encodeShare(share)))
	})
}

// The form is on disk.
func TestShareOnDisk(t *testing.T) {
	got := encodeShare(assign.Partitions{topic(1): {0, 1, 2, 7, 9999}})
	require.Equal(t, []uint32{0, 3, 4, 1, 9991, 1}, got.Topics[0].Runs)
}

// FuzzDecodeShare: whatever a log holds, what is read from it is a share, and of
// a size that nobody chose.
func FuzzDecodeShare(f *testing.F) {
	for _, share := range []*persistv1.GroupAssignment{
		encodeShare(assign.Partitions{topic(1): {0, 1, 5}, topic(2): {3}}),
		{Topics: []*persistv1.GroupAssignment_TopicPartitions{{TopicId: []byte("short"), Runs: []uint32{0, 1}}}},
		{Topics: []*persistv1.GroupAssignment_TopicPartitions{{TopicId: make([]byte, 16), Runs: []uint32{1, 1 << 31, 5}}}},
	} {
		data, err := proto.Marshal(share)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		value := &persistv1.GroupAssignment{}
		if proto.Unmarshal(data, value) != nil {
			return
		}
		for _, list := range decodeShare(value) {
			require.NotEmpty(t, list)
			require.LessOrEqual(t, len(list), maxPartition)
			require.True(t, slices.IsSorted(list))
		}
	})
}
