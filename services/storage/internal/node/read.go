package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Names that ListOffsets takes in place of a time (KIP-79, KIP-405, KIP-734,
// KIP-1005, KIP-1023).
const (
	Latest                int64 = -1
	Earliest              int64 = -2
	MaxTimestamp          int64 = -3
	EarliestLocal         int64 = -4
	LatestTiered          int64 = -5
	EarliestPendingUpload int64 = -6
)

// NoEpoch is the leader epoch of a caller that has no idea of it.
const NoEpoch int32 = -1

// view returns the replica's view and log for a read, opening the replica first
// if need be. The log is nil for an unwritten partition, whose view is that of an
// empty log.
func (p *Partition) view(ctx context.Context) (*replica.View, *raftlog.Log, error) {
	r := p.open.Load()
	if f := p.failure.Load(); f != nil && (r == nil || f.retry.IsZero()) && f.paused(p.node.options.Now()) && !p.empty(f) {
		return nil, nil, f.err
	}
	if r == nil {
		if !p.written.Load() {
			return &replica.View{Role: replica.RoleLeader, Leader: p.id, Sole: p.sole()}, nil, nil
		}
		var err error
		if r, err = p.opened(ctx); err != nil {
			return nil, nil, err
		}
	}
	return r.View(), r.Log(), nil
}

// opened has the owner open the replica, and returns it.
func (p *Partition) opened(ctx context.Context) (*replica.Replica, error) {
	type opening struct {
		r   *replica.Replica
		err error
	}
	done := make(chan opening, 1)
	p.do(task{run: func(r *replica.Replica, err error) { done <- opening{r, err} }}, true)
	select {
	case o := <-done:
		switch {
		case o.r != nil:
			return o.r, nil // the reason for which appends are refused may come with it
		case o.err != nil:
			return nil, o.err
		}
		return nil, ErrStopping
	case <-ctx.Done():
		return nil, fmt.Errorf("open: %w", ctx.Err())
	}
}

// readable is view for a call that only a leader may answer, at the caller's
// leader epoch.
func (p *Partition) readable(ctx context.Context, epoch int32) (*replica.View, *raftlog.Log, error) {
	view, log, err := p.view(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !view.Readable() {
		return nil, nil, p.leaderHint(view)
	}
	if current := int32(view.Term); epoch != NoEpoch && epoch != current {
		return nil, nil, &EpochError{Asked: epoch, Current: current}
	}
	return view, log, nil
}

// CheckEpoch refuses a caller whose leader epoch is not the replica's.
func (p *Partition) CheckEpoch(ctx context.Context, epoch int32) error {
	if epoch == NoEpoch {
		return nil
	}
	_, _, err := p.readable(ctx, epoch)
	return err
}

// Fetch is what to read of a partition.
type Fetch struct {
	Offset   int64
	MaxBytes int
	// Epoch is the caller's idea of the leader epoch, LastEpoch the epoch of the
	// last batch that it has; NoEpoch is none.
	Epoch, LastEpoch int32
	// Clamp reads from the start instead of below it, and nothing instead of
	// above the high watermark.
	Clamp bool
	// Strict reads nothing rather than more than MaxBytes. Without it the first
	// batch comes whole.
	Strict bool
	// Now waits for no cold storage: what is there and not in memory is Pending.
	Now bool
}

// Fetched is what was read.
type Fetched struct {
	View *replica.View
	// Batches are whole batches; the first may begin below Offset.
	Batches []byte
	// Offset is what was read from, Next where to go on.
	Offset, Next int64
	// Diverging is the largest epoch that both logs have and its end here, when
	// the caller's log is not a prefix of this one (KIP-595).
	Diverging *EpochEnd
	// Pending tells that there is more to read, which is on its way.
	Pending bool
}

// EpochEnd is where a leader epoch ended: the offset after its last record.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// Fetch reads batches up to the high watermark, without waiting.
func (p *Partition) Fetch(ctx context.Context, f Fetch) (Fetched, error) {
	view, log, err := p.readable(ctx, f.Epoch)
	if err != nil {
		return Fetched{}, p.wrap("fetch", err)
	}
	out := Fetched{View: view, Offset: f.Offset, Next: f.Offset}
	start, end := view.State.StartOffset, view.HighWatermark
	if f.LastEpoch != NoEpoch && log != nil && f.Offset >= start {
		switch epoch, last := epochEnd(view, log, f.LastEpoch, end); {
		case epoch < 0:
			return out, p.wrap("fetch", fmt.Errorf("%w: epoch %d of the caller's last batch is not known here", ErrOffsetOutOfRange, f.LastEpoch))
		case epoch != f.LastEpoch || last < f.Offset:
			out.Diverging = &EpochEnd{Epoch: epoch, End: last}
			return out, nil
		}
	}
	switch {
	case f.Offset < start && f.Clamp:
		out.Offset, out.Next = start, start
	case f.Offset > end && f.Clamp:
		return out, nil
	case f.Offset < start || f.Offset > end:
		return out, p.wrap("fetch", fmt.Errorf("%w: %d is not in %d..%d", ErrOffsetOutOfRange, f.Offset, start, end))
	}
	if out.Offset >= end || log == nil || f.Strict && f.MaxBytes <= 0 {
		return out, nil
	}
	batches, next, err := p.read(ctx, log, out.Offset, end, f)
	if errors.Is(err, cold.ErrPending) {
		out.Pending = true
		return out, nil
	}
	if err != nil {
		return out, p.wrap("fetch", err)
	}
	if f.Strict && len(batches) > f.MaxBytes {
		return out, nil
	}
	out.Batches, out.Next = batches, next
	return out, nil
}

// read reads from the log, or what that has dropped from cold storage.
func (p *Partition) read(ctx context.Context, log *raftlog.Log, offset, bound int64, f Fetch) (batches []byte, next int64, err error) {
	if offset >= log.StartOffset() {
		chunk, err := log.Read(offset, bound, f.MaxBytes)
		if err == nil {
			return chunk.Bytes, chunk.Next, nil
		}
		// It may have been dropped just now.
		if !errors.Is(err, raftlog.ErrOffsetOutOfRange) || offset >= log.StartOffset() {
			return nil, 0, p.readFailed(err)
		}
	}
	chunk, err := p.readCold(ctx, offset, bound, f.MaxBytes, f.Now)
	return chunk.Bytes, chunk.Next, err
}

// readFailed gives a failed read its kind. Damage that a reader meets takes the
// replica out of service.
func (p *Partition) readFailed(err error) error {
	switch {
	case errors.Is(err, raftlog.ErrDamaged):
		p.do(task{run: func(r *replica.Replica, openErr error) {
			if r != nil && openErr == nil {
				_ = p.ownerFail(r, err)
			}
		}}, true)
	case errors.Is(err, raftlog.ErrOffsetOutOfRange):
		return fmt.Errorf("%w: %w", ErrOffsetOutOfRange, err)
	case errors.Is(err, raftlog.ErrClosed):
		return ErrStopping
	}
	return diskFailure(err)
}

// Listed is the answer to ListOffsets; Offset is -1 when nothing fits, Timestamp
// when the offset has none.
type Listed struct {
	Offset, Timestamp int64
	Epoch             int32
}

// ListOffsets finds an offset by a time in milliseconds or by a name.
func (p *Partition) ListOffsets(ctx context.Context, timestamp int64, epoch int32) (Listed, error) {
	read := p.readable
	if timestamp == Latest || timestamp == MaxTimestamp {
		read = p.current
	}
	view, log, err := read(ctx, epoch)
	if err != nil {
		return Listed{}, p.wrap("list offsets of", err)
	}
	at := func(offset int64) Listed {
		listed := Listed{Offset: offset, Timestamp: -1, Epoch: int32(view.Term)}
		if log != nil && offset < view.HighWatermark {
			listed.Epoch = epochAt(view, log, offset)
		}
		return listed
	}
	none := Listed{Offset: -1, Timestamp: -1, Epoch: -1}
	switch timestamp {
	case Latest:
		return at(view.HighWatermark), nil
	case Earliest:
		return at(view.State.StartOffset), nil
	case EarliestLocal:
		return at(localStart(view, log)), nil
	case LatestTiered:
		if len(view.State.Cold.Segments()) == 0 {
			return none, nil
		}
		return at(view.State.Cold.End(0) - 1), nil
	case EarliestPendingUpload:
		if p.node.cold == nil || !p.Config().Tiered || p.topic.internal {
			return none, nil
		}
		return at(view.State.Cold.End(view.State.StartOffset)), nil
	}
	if log == nil {
		return none, nil
	}
	var (
		offset, found int64
		ok            bool
	)
	if timestamp == MaxTimestamp {
		offset, found, ok, err = p.largestTimestamp(ctx, view, log)
	} else {
		offset, found, ok, err = p.findTimestamp(ctx, view, log, timestamp)
	}
	switch {
	case err != nil:
		return Listed{}, p.wrap("list offsets of", err)
	case !ok:
		return none, nil
	}
	listed := at(max(offset, view.State.StartOffset))
	listed.Timestamp = found
	return listed, nil
}

// EpochEnd returns the largest leader epoch at or below the one asked for, and
// where it ended; -1 and -1 when there is none, or the one asked for is newer than
// any (KIP-320).
func (p *Partition) EpochEnd(ctx context.Context, asked, current int32) (EpochEnd, error) {
	view, log, err := p.readable(ctx, current)
	if err != nil {
		return EpochEnd{}, p.wrap("find epoch end of", err)
	}
	if log == nil {
		return EpochEnd{Epoch: -1, End: -1}, nil
	}
	epoch, end := epochEnd(view, log, asked, view.HighWatermark)
	return EpochEnd{Epoch: epoch, End: end}, nil
}

// Description is the state of a replica.
type Description struct {
	View     *replica.View
	Segments int
	Bytes    int64
	// Leader names the leader.
	Leader *NotLeaderError
	// ID is the replica's own id, Node the node's.
	ID   uint64
	Node string
	// Upkeep is what retention and compaction have done since the process
	// started.
	Upkeep UpkeepCounts
	// LocalStart is the first offset that is on disk.
	LocalStart int64
}

// Describe returns the replica's state. It is answered by any replica.
func (p *Partition) Describe(ctx context.Context) (Description, error) {
	view, log, err := p.view(ctx)
	if err != nil {
		return Description{}, p.wrap("describe", err)
	}
	d := Description{View: view, Leader: p.leaderHint(view), ID: p.id, Node: p.node.options.ID, Upkeep: p.counts.now()}
	if view.Sole {
		d.Leader.Leader = d.Node
	}
	d.LocalStart = localStart(view, log)
	if log != nil {
		d.Segments, d.Bytes = log.Size()
	}
	return d, nil
}
