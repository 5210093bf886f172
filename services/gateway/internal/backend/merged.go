package backend

import (
	"context"

	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// writeMerged writes requests of one producer, each of which touches one partition,
// with one check and one append for each partition, and ends as if they were written
// one after the other.
//
// A partition checks records in their order, each as if those before it were written.
// So when it agrees to the records of several requests behind one another, it would
// have agreed to each request after those before it, and would have told the same
// duplicates. When it refuses any of them, nothing was written and the refusal is
// not that of all: the requests for that partition are then written one by one. What
// fails without regard to what was asked (no leader, an unknown outcome) is the end
// of all that were in it.
func (b *Backend) writeMerged(ctx context.Context, topic *picture.Topic, number int64, writes []*sequencedWrite) {
	records, placed, shares := merge(writes)
	b.askShares(ctx, topic, number, shares)
	var appends []*partitionAppend
	for _, s := range shares {
		if s.err == nil {
			s.err = s.build(topic, records, number, b.now())
		}
		if s.err == nil && s.append != nil {
			appends = append(appends, s.append)
		}
	}
	b.appendAll(ctx, topic, appends)
	ended := make(map[int32]error, len(shares))
	for _, s := range shares {
		err := s.err
		switch {
		case err != nil:
		case s.append == nil:
			s.place(placed, 0)
		default:
			if err = s.append.err; err == nil {
				s.place(placed, s.append.appended.GetBaseOffset())
				b.countSequenced(topic, records, s)
			}
		}
		ended[s.share.partition] = err
	}
	for _, w := range writes {
		err := ended[w.shares[0].partition]
		switch {
		case err == nil:
			w.result.Placed = placed[:len(w.records):len(w.records)]
		case ofOneRequest(err):
			b.writeSequenced(ctx, topic, number, w)
		default:
			w.result.Err = err
		}
		placed = placed[len(w.records):]
	}
}

// merge puts requests behind one another, with a share for each partition.
func merge(writes []*sequencedWrite) ([]NewRecord, []Placed, []*sequencedShare) {
	n := 0
	for _, w := range writes {
		n += len(w.records)
	}
	records, placed := make([]NewRecord, 0, n), make([]Placed, 0, n)
	byPartition := make(map[int32]*share)
	var merged []*share
	for _, w := range writes {
		of := w.shares[0]
		s := byPartition[of.partition]
		if s == nil {
			s = &share{partition: of.partition}
			byPartition[of.partition] = s
			merged = append(merged, s)
		}
		s.bytes += of.bytes
		for _, at := range of.records {
			s.records = append(s.records, len(records)+at)
		}
		records, placed = append(records, w.records...), append(placed, w.placed...)
	}
	shares := make([]*sequencedShare, len(merged))
	for i, s := range merged {
		shares[i] = newSequencedShare(s, records)
	}
	return records, placed, shares
}

// ofOneRequest says that an error may be that of one of several requests, and that
// none of them was written: of others there may be more to say.
func ofOneRequest(err error) bool {
	switch errs.KindOf(err) {
	case errs.InvalidArgument, errs.FailedPrecondition, errs.OutOfRange, errs.Aborted:
		return true
	default:
		return errs.Reason(err) == errs.Reason(ErrProducerBusy)
	}
}
