package producer_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
)

const idle = 100 * time.Millisecond

// oracle is the window in the words of the document: all that a producer ever
// wrote, of which the last 128 count.
type oracle struct {
	sequences, offsets []int64
	lastMs             int64
}

func (o *oracle) evaluate(sequences []int64, now int64) ([]int64, *producer.Error) {
	history := []int64{}
	offsets := []int64{}
	if o.lastMs+idle.Milliseconds() > now {
		history, offsets = append(history, o.sequences...), append(offsets, o.offsets...)
	}
	var verdicts []int64
	for i, sequence := range sequences {
		if n := len(history); n > 0 {
			last := history[n-1]
			if sequence > last && sequence-1 != last {
				return nil, &producer.Error{Fault: producer.Gap, Record: i, Expected: last + 1, Got: sequence}
			}
			if sequence <= last {
				window := max(0, n-128)
				found := false
				for j := window; j < n; j++ {
					if history[j] == sequence {
						verdicts, found = append(verdicts, offsets[j]), true
					}
				}
				if !found {
					return nil, &producer.Error{Fault: producer.TooOld, Record: i, Expected: history[window], Got: sequence}
				}
				continue
			}
		}
		history, offsets = append(history, sequence), append(offsets, producer.New)
		verdicts = append(verdicts, producer.New)
	}
	return verdicts, nil
}

// write takes in what the verdict calls new, once each.
func (o *oracle) write(first, count, offset, now int64) {
	if o.lastMs+idle.Milliseconds() <= now {
		o.sequences, o.offsets = nil, nil
	}
	for i := range count {
		o.sequences, o.offsets = append(o.sequences, first+i), append(o.offsets, offset+i)
	}
	o.lastMs = now
}

// wideBatch is the batch of a wide producer as the log has it.
func wideBatch(number, first, count, offset int64) producer.Batch {
	p := recordbatch.PackWide(number, first)
	b, ok, err := producer.Of(recordbatch.Header{
		BaseOffset: offset, ProducerID: p.ID, ProducerEpoch: p.Epoch, BaseSequence: p.BaseSequence,
		LastOffsetDelta: int32(count - 1), Count: int32(count),
	})
	if !ok || err != nil {
		panic(err)
	}
	return b
}

// fresh returns the range of the sequences that are to be written.
func fresh(sequences, offsets []int64) (first, count int64) {
	for i, offset := range offsets {
		if offset == producer.New && (count == 0 || sequences[i] == first+count) {
			if count == 0 {
				first = sequences[i]
			}
			count++
		}
	}
	return first, count
}

// TestWindowAgainstItsDocument drives a leader's view of a few producers and
// compares each verdict with the oracle's. Appends are committed later, in order;
// now and then the leader steps down and what was under way is lost, or all is
// encoded and read back.
func TestWindowAgainstItsDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := producer.Bounds{Idle: idle}
		ahead := producer.Ahead{Table: producer.NewTable(bounds)}
		committed := map[int64]*oracle{}
		type flight struct {
			batch producer.Batch
			now   int64
		}
		var (
			inFlight    []flight
			now         = int64(1_000_000)
			offset      int64
			committedTo int64
		)
		// view is what the leader is to believe: committed and in flight.
		view := func(number int64) *oracle {
			o := &oracle{lastMs: math.MinInt64 / 2}
			if c := committed[number]; c != nil {
				*o = oracle{append([]int64(nil), c.sequences...), append([]int64(nil), c.offsets...), c.lastMs}
			}
			for _, f := range inFlight {
				if f.batch.Producer == recordbatch.WideProducer|number {
					o.write(f.batch.First, f.batch.Last-f.batch.First+1, f.batch.Offset, f.now)
					o.lastMs = math.MaxInt64 / 2 // what is under way does not expire
				}
			}
			return o
		}
		// forget does what the table does with those who have expired, when it is
		// changed or encoded.
		forget := func() {
			for number, c := range committed {
				if c.lastMs+idle.Milliseconds() <= now {
					delete(committed, number)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				number := rapid.Int64Range(1, 2).Draw(t, "number")
				o := view(number)
				start := rapid.Int64Range(0, 300).Draw(t, "start")
				if n := len(o.sequences); n > 0 {
					start = o.sequences[n-1] + rapid.Int64Range(-140, 3).Draw(t, "relative")
				}
				var sequences []int64
				for range rapid.IntRange(1, 60).Draw(t, "records") {
					if start < 0 {
						start = 0
					}
					sequences = append(sequences, start)
					start += rapid.SampledFrom([]int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, -2, 2}).Draw(t, "step")
				}
				want, refused := o.evaluate(sequences, now)
				got, err := ahead.Prepare(recordbatch.WideProducer|number, sequences, now)
				if refused != nil {
					var e *producer.Error
					if !errors.As(err, &e) || *e != *refused {
						t.Fatalf("want %+v, got %+v", refused, err)
					}
					return
				}
				require.NoError(t, err)
				require.Equal(t, want, got.Offsets)
				first, count := fresh(sequences, got.Offsets)
				if count == 0 || rapid.IntRange(0, 3).Draw(t, "gives up") == 0 {
					return
				}
				b := wideBatch(number, first, count, offset)
				require.NoError(t, ahead.CheckGuarded(got.Expected, []producer.Batch{b}, now))
				ahead.Add(b, now)
				require.ErrorIs(t, ahead.CheckGuarded(got.Expected, []producer.Batch{b}, now), producer.ErrStaleGuard)
				inFlight = append(inFlight, flight{b, now})
				offset += count
				// Somebody else's records in between.
				offset += rapid.SampledFrom([]int64{0, 0, 3}).Draw(t, "others")
			},
			"commit": func(t *rapid.T) {
				if len(inFlight) == 0 {
					return
				}
				f := inFlight[0]
				inFlight = inFlight[1:]
				number := f.batch.Producer &^ recordbatch.WideProducer
				if committed[number] == nil {
					committed[number] = &oracle{lastMs: math.MinInt64 / 2}
				}
				// A batch that follows goes on with the window, expired or not.
				c := committed[number]
				if n := len(c.sequences); n > 0 && c.sequences[n-1]+1 == f.batch.First {
					c.lastMs = now
				}
				c.write(f.batch.First, f.batch.Last-f.batch.First+1, f.batch.Offset, now)
				ahead.Table.Apply(f.batch, now)
				ahead.Applied(f.batch)
				forget()
				committedTo = f.batch.Offset
			},
			"time": func(t *rapid.T) {
				if len(inFlight) > 0 {
					return // kept simple: an append under way is of a moment
				}
				now += rapid.Int64Range(1, 60).Draw(t, "ms")
			},
			"step down": func(t *rapid.T) {
				keep := rapid.IntRange(0, len(inFlight)).Draw(t, "keep")
				ahead.Cut(keep, now)
				inFlight = inFlight[:keep]
				require.Equal(t, keep, ahead.Len())
			},
			"restart": func(t *rapid.T) {
				forget()
				bytes, err := proto.Marshal(&persistv1.ReplicaState{Producers: ahead.Table.Encode(now)})
				require.NoError(t, err)
				var state persistv1.ReplicaState
				require.NoError(t, proto.Unmarshal(bytes, &state))
				table, err := producer.Decode(bounds, state.GetProducers())
				require.NoError(t, err)
				require.Equal(t, ahead.Table.List(now), table.List(now))
				ahead, inFlight = producer.Ahead{Table: table}, nil
			},
			"": func(t *rapid.T) {
				for _, k := range ahead.Table.List(now) {
					require.LessOrEqual(t, k.LastOffset, committedTo+60)
				}
			},
		})
	})
}

// TestKafkaAgainstAllBatches compares verdicts on Kafka's kind with a list of all
// batches of the epoch.
func TestKafkaAgainstAllBatches(t *testing.T) {
	const space = 1 << 31
	rapid.Check(t, func(t *rapid.T) {
		ahead := producer.Ahead{Table: producer.NewTable(producer.Bounds{})}
		type written struct{ first, last, offset int64 }
		var (
			all      []written
			inFlight []producer.Batch
			epoch    int16
			offset   int64
		)
		for range rapid.IntRange(1, 40).Draw(t, "batches") {
			b := producer.Batch{Producer: 7, Epoch: epoch, Offset: offset, AppendTime: producer.NoTime}
			count := rapid.Int64Range(1, 3).Draw(t, "count")
			b.First = rapid.SampledFrom([]int64{0, 5, space - 2}).Draw(t, "start")
			if len(all) > 0 {
				b.First = (all[len(all)-1].last + 1 + space) % space
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0: // a retry
					again := all[rapid.IntRange(max(0, len(all)-7), len(all)-1).Draw(t, "again")]
					b.First, count = again.first, (again.last-again.first+space)%space+1
				case 1: // a gap, or something before
					b.First = (b.First + rapid.Int64Range(-8, 2).Draw(t, "off") + space) % space
				case 2:
					b.Epoch += int16(rapid.SampledFrom([]int{-1, 1}).Draw(t, "epoch"))
					b.Epoch = max(b.Epoch, 0)
					b.First = rapid.Int64Range(0, 1).Draw(t, "first of the epoch")
				}
			}
			b.Last = (b.First + count - 1) % space

			next := int64(-1)
			if len(all) > 0 {
				next = (all[len(all)-1].last + 1) % space
			}
			got, err := ahead.Check(b, 0)
			var refusal *producer.Error
			errors.As(err, &refusal)
			fault := func(want producer.Fault) {
				require.NotNil(t, refusal)
				require.Equal(t, want, refusal.Fault, "%+v after %+v", b, all)
			}
			duplicate := int64(-1)
			wasWritten := true
			for i := range all {
				if i >= len(all)-5 && all[i].first == b.First && all[i].last == b.Last {
					duplicate = all[i].offset
				}
			}
			for i := range count {
				inside := false
				for _, w := range all {
					at := (b.First + i - w.first + space) % space
					inside = inside || at <= (w.last-w.first+space)%space
				}
				wasWritten = wasWritten && inside
			}
			switch {
			case len(all) > 0 && b.Epoch < epoch:
				fault(producer.OldEpoch)
				continue
			case len(all) > 0 && b.Epoch > epoch:
				if b.First != 0 {
					fault(producer.Gap)
					continue
				}
				all, epoch = nil, b.Epoch
			case duplicate >= 0:
				require.NoError(t, err)
				require.Equal(t, producer.Verdict{Duplicate: true, Offset: duplicate, AppendTime: producer.NoTime}, got)
				continue
			case len(all) > 0 && b.First != next && wasWritten:
				fault(producer.TooOld)
				continue
			case len(all) > 0 && b.First != next:
				fault(producer.Gap)
				continue
			}
			require.NoError(t, err)
			require.False(t, got.Duplicate)
			ahead.Add(b, 0)
			all = append(all, written{b.First, b.Last, offset})
			offset += count
			inFlight = append(inFlight, b)
			for len(inFlight) > rapid.IntRange(0, 3).Draw(t, "under way") {
				ahead.Table.Apply(inFlight[0], 0)
				ahead.Applied(inFlight[0])
				inFlight = inFlight[1:]
			}
		}
	})
}
