package storage_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

func TestAppend(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		out := orders.written(0, "a", "b")
		require.Equal(t, int64(0), out.GetBaseOffset())
		require.Equal(t, int64(-1), out.GetLogAppendTimeMs())
		require.Equal(t, int64(0), out.GetLogStartOffset())

		out = orders.appendOne(0, batchOf(t, "c"), batchOf(t, "d", "e"))
		require.Nil(t, out.GetError())
		require.Equal(t, int64(2), out.GetBaseOffset())
		require.Equal(t, map[int64]string{0: "a", 1: "b", 2: "c", 3: "d", 4: "e"}, valuesOf(t, s.fetchOne(orders.from(0, 0)).GetBatches()))
		require.Equal(t, int64(0), orders.written(1, "x").GetBaseOffset())
	})
}

// One partition's refusal fails no other, and answers come in the order of the
// request.
func TestAppendToSeveralPartitions(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(3, nil)
		orders.written(2, "before")
		broken := batchOf(t, "never")
		broken[len(broken)-1] ^= 1
		response, err := s.storage.Append(t.Context(), &storagev1.AppendRequest{
			Origin: storagev1.Origin_ORIGIN_CLIENT,
			Appends: []*storagev1.AppendRequest_PartitionAppend{
				orders.to(2, batchOf(t, "two")),
				orders.to(7, batchOf(t, "nowhere")),
				orders.to(1, batchOf(t, "good"), broken),
				orders.to(0, batchOf(t, "zero")),
				orders.to(2, batchOf(t, "two again")),
			},
		})
		require.NoError(t, err)
		out := response.GetAppended()
		require.Len(t, out, 5)
		require.Nil(t, out[0].GetError())
		require.Equal(t, int64(1), out[0].GetBaseOffset())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, out[1].GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE, out[2].GetError())
		require.Nil(t, out[3].GetError())
		require.Nil(t, out[4].GetError())
		require.Equal(t, int64(2), out[4].GetBaseOffset())

		require.Empty(t, s.fetchOne(orders.from(1, 0)).GetBatches(), "one bad batch, and none of the append is written")
		require.Equal(t, map[int64]string{0: "before", 1: "two", 2: "two again"}, valuesOf(t, s.fetchOne(orders.from(2, 0)).GetBatches()))
	})
}

// altered returns a batch with a header that a test has changed, sealed again.
func altered(batch []byte, change func(*recordbatch.Header)) []byte {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	change(&h)
	recordbatch.Seal(batch, h)
	return batch
}

func TestAppendRefusals(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		var (
			orders  = s.topic(1, map[string]string{"max.message.bytes": "2000"})
			keyed   = s.topic(1, map[string]string{"cleanup.policy": "compact"})
			shard   = s.internal()
			client  = storagev1.Origin_ORIGIN_CLIENT
			coord   = storagev1.Origin_ORIGIN_COORDINATOR
			invalid = storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD
		)
		_, err := s.replicas.Fence(t.Context(), &storagev1.FenceRequest{Partition: shard.partition(0), OwnerEpoch: 5})
		require.NoError(t, err)
		with := func(a *storagev1.AppendRequest_PartitionAppend, change func(*storagev1.AppendRequest_PartitionAppend)) *storagev1.AppendRequest_PartitionAppend {
			change(a)
			return a
		}
		keyless := recordbatch.NewBuilder(recordbatch.Options{})
		keyless.Append(base, []byte("k"), []byte("v"), nil)
		keyless.Append(base, nil, []byte("v"), nil)
		withoutKey, err := keyless.Finish()
		require.NoError(t, err)
		future := recordbatch.NewBuilder(recordbatch.Options{})
		future.Append(base, []byte("k"), nil, nil)
		future.Append(time.Now().Add(2*time.Hour).UnixMilli(), []byte("k"), nil, nil)
		tooLate, err := future.Finish()
		require.NoError(t, err)
		inTransaction := recordbatch.NewBuilder(recordbatch.Options{Producer: &recordbatch.Producer{ID: 1}, Transactional: true})
		inTransaction.Append(base, nil, []byte("v"), nil)
		transactional, err := inTransaction.Finish()
		require.NoError(t, err)

		for name, c := range map[string]struct {
			origin storagev1.Origin
			append *storagev1.AppendRequest_PartitionAppend
			want   storagev1.ErrorCode
			record *int32
		}{
			"unknown partition": {client, orders.to(1, batchOf(t, "x")), storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, nil},
			"unknown topic":     {client, (&topic{s: s, id: uuid.New()}).to(0, batchOf(t, "x")), storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, nil},
			"no UUID": {client, with(orders.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
				a.Partition = &storagev1.Partition{TopicId: []byte("orders")}
			}), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"no partition": {client, &storagev1.AppendRequest_PartitionAppend{Batches: batchOf(t, "x")}, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"no bytes":     {client, orders.to(0), invalid, nil},
			"half a batch": {client, orders.to(0, batchOf(t, "x")[:50]), invalid, nil},
			"a flipped bit": {client, orders.to(0, func() []byte {
				b := batchOf(t, "x")
				b[len(b)-1] ^= 4
				return b
			}()), storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE, nil},
			"unknown magic": {client, orders.to(0, func() []byte {
				b := batchOf(t, "x")
				b[16] = 3
				return b
			}()), storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE, nil},
			"wrong count":     {client, orders.to(0, altered(batchOf(t, "x", "y"), func(h *recordbatch.Header) { h.Count, h.LastOffsetDelta = 3, 2 })), invalid, proto.Int32(2)},
			"base offset":     {client, orders.to(0, altered(batchOf(t, "x"), func(h *recordbatch.Header) { h.BaseOffset = 1 })), invalid, nil},
			"a control batch": {client, orders.to(0, altered(batchOf(t, "x"), func(h *recordbatch.Header) { h.Attributes |= recordbatch.Control })), invalid, nil},
			"no key":          {client, keyed.to(0, batchOf(t, "ok", "ok"), withoutKey), invalid, proto.Int32(3)},
			"a future time":   {client, orders.to(0, tooLate), storagev1.ErrorCode_ERROR_CODE_INVALID_TIMESTAMP, proto.Int32(1)},
			"too large":       {client, orders.to(0, batchOf(t, strings.Repeat("x", 2000))), storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE, nil},
			"too many bytes":  {client, keyed.to(0, largeBatches(t, 5, 60<<10)...), storagev1.ErrorCode_ERROR_CODE_OVERLOADED, nil},
			"a transaction":   {client, orders.to(0, transactional), storagev1.ErrorCode_ERROR_CODE_UNSUPPORTED, nil},
			"a guard without a producer": {client, with(orders.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
				a.Guard = []byte{1}
			}), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"an old leader epoch": {client, with(orders.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
				a.CurrentLeaderEpoch = proto.Int32(1)
			}), storagev1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, nil},
			"an unknown leader epoch": {client, with(orders.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
				a.CurrentLeaderEpoch = proto.Int32(math.MaxInt32)
			}), storagev1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH, nil},
			"a client to the system's topic": {client, shard.to(0, batchOf(t, "x")), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"nobody's":                       {storagev1.Origin_ORIGIN_UNSPECIFIED, orders.to(0, batchOf(t, "x")), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"an unknown origin":              {storagev1.Origin(9), orders.to(0, batchOf(t, "x")), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"a coordinator without an epoch": {coord, shard.to(0, batchOf(t, "x")), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"a coordinator with epoch -1": {coord, with(shard.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
				a.OwnerEpoch = proto.Int64(-1)
			}), storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil},
			"a fenced coordinator": {coord, with(shard.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
				a.OwnerEpoch = proto.Int64(4)
			}), storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER, nil},
		} {
			if name == "an old leader epoch" {
				orders.written(0, "so that there is an epoch")
			}
			out := s.append(c.origin, c.append)
			requireCode(t, c.want, out.GetError(), name)
			if c.record == nil {
				require.Nil(t, out.GetError().Record, name) //nolint:protogetter // presence is what is asked
			} else {
				require.NotNil(t, out.GetError().Record, name) //nolint:protogetter // presence is what is asked
				require.Equal(t, *c.record, out.GetError().GetRecord(), name)
			}
		}
		for _, untouched := range []*topic{keyed, shard} {
			require.Empty(t, s.fetchOne(untouched.from(0, 0)).GetBatches())
		}
		out := s.append(coord, with(shard.to(0, batchOf(t, "x")), func(a *storagev1.AppendRequest_PartitionAppend) {
			a.OwnerEpoch = proto.Int64(5)
		}))
		require.Nil(t, out.GetError())
	})
}

func largeBatches(t *testing.T, n, size int) [][]byte {
	t.Helper()
	batches := make([][]byte, n)
	for i := range batches {
		batches[i] = batchOf(t, strings.Repeat("x", size))
	}
	return batches
}

func TestLogAppendTime(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, map[string]string{"message.timestamp.type": "LogAppendTime"})
		before := time.Now().UnixMilli()
		out := orders.written(0, "x", "y")
		require.GreaterOrEqual(t, out.GetLogAppendTimeMs(), before)
		for record, err := range recordbatch.Records(s.fetchOne(orders.from(0, 0)).GetBatches(), recordbatch.Limits{}) {
			require.NoError(t, err)
			require.Equal(t, out.GetLogAppendTimeMs(), record.Timestamp)
		}
	})
}

func TestCompressionOfTheTopic(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, map[string]string{"compression.type": "zstd"})
		orders.written(0, "x", "y")
		batches := s.fetchOne(orders.from(0, 0)).GetBatches()
		h, err := recordbatch.ParseHeader(batches)
		require.NoError(t, err)
		require.Equal(t, recordbatch.Zstd, h.Attributes.Codec())
		require.Equal(t, map[int64]string{0: "x", 1: "y"}, valuesOf(t, batches))
	})
}
