package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/invariant"
	"github.com/sluiceio/sluice/services/kit/rpc/caller"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Appending is an append, or another proposal, that is under way.
type Appending struct {
	p        *Partition
	proposal replica.Proposal
	// batches has room for the proposal's, of which most have one.
	batches [1][]byte
	// size is how much of the node's memory it holds until it is answered.
	size int64
	// result is set, and then done receives, when it is answered.
	result   replica.Result
	done     chan struct{}
	answered atomic.Bool
}

// Append queues checked batches and returns without waiting. Their bytes are read
// until the append is done, also after Wait has given up, and never written to; the
// list of them is not kept. It waits for memory as long as ctx lasts; ErrOverloaded
// when there is none.
func (p *Partition) Append(ctx context.Context, batches [][]byte, ownerEpoch int64) (*Appending, error) {
	return p.append(ctx, batches, ownerEpoch, nil)
}

// AppendSequenced is Append of batches that a producer has numbered.
func (p *Partition) AppendSequenced(ctx context.Context, batches [][]byte, by *replica.Sequenced) (*Appending, error) {
	return p.append(ctx, batches, replica.NoOwner, by)
}

func (p *Partition) append(ctx context.Context, batches [][]byte, ownerEpoch int64, by *replica.Sequenced) (*Appending, error) {
	size := int64(0)
	for _, batch := range batches {
		size += int64(len(batch))
	}
	if size > p.node.options.MaxAppendBytes {
		return nil, fmt.Errorf("%w: %d bytes are over the node's limit of %d", ErrOverloaded, size, p.node.options.MaxAppendBytes)
	}
	if !p.node.memory.TryAcquire(size) {
		if err := p.node.memory.Acquire(ctx, size); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOverloaded, err)
		}
	}
	a := &Appending{p: p, size: size, proposal: replica.Proposal{OwnerEpoch: ownerEpoch, Producer: by}}
	a.proposal.Batches = append(a.batches[:0], batches...)
	a.begin()
	return a, nil
}

// command queues a command.
func (p *Partition) command(command *persistv1.Command) *Appending {
	a := &Appending{p: p, proposal: replica.Proposal{Command: command, OwnerEpoch: replica.NoOwner}}
	a.begin()
	return a
}

// order is command past the queue of appends, by itself: what makes room is proposed
// while appends are refused because there is none, and shares its write with none of
// them. The replica is there.
func (p *Partition) order(command *persistv1.Command) *Appending {
	a := &Appending{p: p, proposal: replica.Proposal{Command: command, OwnerEpoch: replica.NoOwner}}
	a.prepare()
	p.outstanding.Add(1)
	proposed := false
	p.do(task{lost: func(err error) {
		if !proposed {
			a.answer(replica.Result{Err: err})
		}
	}, run: func(r *replica.Replica, err error) {
		switch {
		case err != nil:
		case r != nil:
			err = p.ownerElect(r)
		default:
			err = ErrStopping
		}
		if err != nil {
			a.answer(replica.Result{Err: err})
			return
		}
		p.node.awake.touch(p)
		proposed = true // the replica answers it, whatever happens
		if r.Propose([]*replica.Proposal{&a.proposal}) == nil {
			// The replica keeps its failure.
			_ = r.Run()
		}
	}}, false)
	return a
}

func (a *Appending) begin() {
	a.prepare()
	a.p.propose(&a.proposal, int(a.size))
}

// prepare makes it one that can be answered and waited for.
func (a *Appending) prepare() {
	a.done = a.p.node.signals.Get().(chan struct{})
	a.proposal.Done = a.answer
}

// answer is called by the owner. A second answer would be another append's, whose
// channel this one's may be by then.
func (a *Appending) answer(result replica.Result) {
	if a.answered.Swap(true) {
		invariant.Checkf(false, "an append to %s was answered twice", a.p.key)
		return
	}
	a.p.node.memory.Release(a.size)
	a.p.outstanding.Add(-1)
	a.result = result
	a.done <- struct{}{}
}

// Wait returns the result, once. When the caller gives up first the append goes
// on, and its outcome is unknown to him. The owner answers in any case, also when
// the node stops: nothing but the caller needs to end the wait.
func (a *Appending) Wait(ctx context.Context) (replica.Result, error) {
	select {
	case <-a.done:
		a.p.node.signals.Put(a.done)
		return a.result, a.p.translate(a.result.Err)
	case <-caller.Done(ctx):
		return replica.Result{}, fmt.Errorf("%w: %w", replica.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// translate gives a refusal its redirect.
func (p *Partition) translate(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, replica.ErrNotLeader) && !errors.Is(err, replica.ErrNotReady) {
		return err
	}
	if r := p.open.Load(); r != nil {
		return p.leaderHint(r.View())
	}
	return &NotLeaderError{}
}

// Fence raises the owner epoch through the log. It returns the offset after the
// last record that an older owner can have written.
func (p *Partition) Fence(ctx context.Context, ownerEpoch int64) (logEnd int64, err error) {
	result, err := p.command(&persistv1.Command{Kind: &persistv1.Command_Fence{
		Fence: &persistv1.Fence{OwnerEpoch: ownerEpoch},
	}}).Wait(ctx)
	return result.EndOffset, p.wrap("fence", err)
}

// HighWatermarkOffset asks AdvanceStart for the high watermark.
const HighWatermarkOffset int64 = -1

// AdvanceStart raises the start offset through the log and drops the segments
// that fall below it. It returns the start offset after it.
func (p *Partition) AdvanceStart(ctx context.Context, offset int64) (start int64, err error) {
	view, _, err := p.view(ctx)
	if err != nil {
		return 0, p.wrap("advance start of", err)
	}
	if offset == HighWatermarkOffset {
		offset = view.HighWatermark
	}
	if offset < 0 || offset > view.HighWatermark {
		return 0, p.wrap("advance start of", fmt.Errorf("%w: %d is not in 0..%d", ErrOffsetOutOfRange, offset, view.HighWatermark))
	}
	if offset <= view.State.StartOffset {
		return view.State.StartOffset, nil
	}
	if start, err = p.raise(ctx, offset); err != nil {
		return 0, p.wrap("advance start of", err)
	}
	// The records are gone for readers. Their segments go now, or, should that
	// fail, with the next advance or retention pass.
	_, _, err = p.trim()
	return start, p.wrap("advance start of", err)
}

// raise moves the start offset through the log.
func (p *Partition) raise(ctx context.Context, offset int64) (start int64, err error) {
	result, err := p.order(&persistv1.Command{Kind: &persistv1.Command_AdvanceStart{
		AdvanceStart: &persistv1.AdvanceStart{Offset: offset},
	}}).Wait(ctx)
	return result.StartOffset, err
}

// trim drops the segments that lie below the start offset, and tells how many and
// how many bytes.
func (p *Partition) trim() (segments int, bytes int64, err error) { return p.trimLocal(0) }

// trimLocal is trim that drops what is in cold storage and below an offset, too.
func (p *Partition) trimLocal(offset int64) (segments int, bytes int64, err error) {
	err = p.await(false, func(r *replica.Replica) error {
		p.node.awake.touch(p)
		var err error
		segments, bytes, err = r.TrimLocal(offset)
		if err == nil {
			p.ownerBury(r)
		}
		return diskFailure(err)
	})
	return segments, bytes, err
}

// ownerBury deletes the files of trimmed segments whose grace is over, and sees
// to it that the others' are when theirs is. What a stop leaves goes at the next
// start.
func (p *Partition) ownerBury(r *replica.Replica) {
	// A failure is noted by the round that this is part of.
	next, err := r.Bury()
	if err != nil || next.IsZero() || p.burying.Swap(true) {
		return
	}
	time.AfterFunc(max(next.Sub(p.node.options.Now()), time.Millisecond), func() {
		p.do(task{run: func(r *replica.Replica, err error) {
			p.burying.Store(false)
			if r != nil && err == nil {
				p.ownerBury(r)
			}
		}}, false)
	})
}
