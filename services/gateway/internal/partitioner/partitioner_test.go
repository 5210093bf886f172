package partitioner_test

import (
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway/internal/partitioner"
)

func TestTheExampleOfTheDocument(t *testing.T) {
	require.EqualValues(t, 0, partitioner.FNV1a.Partition([]byte("user-1"), 2))
	require.EqualValues(t, 1, partitioner.FNV1a.Partition([]byte("user-2"), 2))
}

func TestFNV1aIsTheLibrarys(t *testing.T) {
	for _, key := range []string{"", "a", "user-1", "\x00\xff", "foobar", "日本"} {
		h := fnv.New32a()
		h.Write([]byte(key))
		require.EqualValues(t, h.Sum32()%10000, partitioner.FNV1a.Partition([]byte(key), 10000), "%q", key)
	}
}

// The sums are those of Kafka's UtilsTest.testMurmur2.
func TestMurmur2IsKafkas(t *testing.T) {
	for key, sum := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		positive := uint32(sum) & 0x7fffffff
		for _, n := range []int{1, 2, 3, 10, 9973} {
			require.EqualValues(t, positive%uint32(n), partitioner.Murmur2.Partition([]byte(key), n), "%q of %d", key, n)
		}
	}
}

func TestNamed(t *testing.T) {
	require.Equal(t, partitioner.Murmur2, partitioner.Named("murmur2"))
	require.Equal(t, partitioner.FNV1a, partitioner.Named("fnv1a"))
	require.Equal(t, partitioner.FNV1a, partitioner.Named(""))
}
