package replica

import (
	"errors"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Propose appends proposals in their order, as one Raft proposal, and answers
// those that are refused. Run must have returned since the last Propose or Step:
// stamping needs a log without anything unstable.
func (r *Replica) Propose(proposals []*Proposal) (err error) {
	if err := r.refusal(); err != nil {
		refuse(proposals, err)
		return nil
	}
	last, err := r.log.LastIndex()
	if err != nil {
		err = fmt.Errorf("propose to %s: %w", r.options.Key, err)
		refuse(proposals, err)
		return err
	}
	var (
		offset = r.log.NextOffset()
		draft  = newDraft(countEntries(proposals), last+1, r.term)
		began  = len(r.waiting.all())
		flying = r.ahead.Len()
		fence  = r.fenceInFlight
		now    = r.options.Now().UnixMilli()
	)
	left := proposals
	defer r.recoverProposals(&err, &left)
	r.stash.clear()
	r.stash.draft = draft
	for i, p := range proposals {
		left = proposals[i:]
		if p.OwnerEpoch != NoOwner {
			if fence := max(r.state.OwnerEpoch, r.fenceInFlight); p.OwnerEpoch < fence {
				p.Done(Result{Err: &FencedError{Epoch: p.OwnerEpoch, Fence: fence}})
				continue
			}
		}
		if p.Producer != nil {
			verdict, err := r.checkProducer(p.Producer, now)
			if err != nil {
				p.Done(Result{Err: err})
				continue
			}
			if verdict.Duplicate {
				r.wait(r.original(p, verdict, draft.next()-1))
				continue
			}
		}
		base := offset
		if len(p.Batches) == 0 {
			data, err := r.encodeCommand(p)
			if err != nil {
				p.Done(Result{Err: err})
				continue
			}
			draft.add(data, nil)
		}
		for i, batch := range p.Batches {
			if p.Producer != nil {
				p.Producer.Batches[i].Offset = offset
				r.ahead.Add(p.Producer.Batches[i], now)
			}
			header := draft.addBatch(batch)
			recordbatch.Stamp(header, offset, int32(r.term))
			offset = batchEnd(header)
		}
		r.wait(pending{proposal: p, term: r.term, last: draft.next() - 1, base: base, end: offset})
	}
	left = nil
	if len(draft.entries) == 0 {
		// Duplicates may be answered already.
		r.answer()
		return nil
	}
	err = r.raw.Step(&raftpb.Message{
		Type: raftpb.MsgProp.Enum(), From: new(r.options.ID), Entries: draft.entries,
	})
	if err == nil {
		return nil
	}
	// Dropped: nothing was appended.
	r.stash.clear()
	r.ahead.Cut(flying, now)
	r.fenceInFlight = fence
	dropped := r.waiting.cut(began)
	refusal := fmt.Errorf("%w: %w", ErrNotLeader, err)
	for _, p := range dropped {
		p.proposal.Done(Result{Err: refusal})
	}
	clear(dropped)
	if errors.Is(err, raft.ErrProposalDropped) {
		return nil
	}
	return fmt.Errorf("propose to %s: %w", r.options.Key, err)
}

// recoverProposals is recoverPanic for proposals, of which those that are left are
// neither answered nor waiting: nothing of them was appended.
func (r *Replica) recoverProposals(err *error, left *[]*Proposal) {
	if value := recover(); value != nil {
		*err = r.panicked(value)
		refuse(*left, *err)
	}
}

// refuse answers proposals of which nothing was appended.
func refuse(proposals []*Proposal, err error) {
	for _, p := range proposals {
		p.Done(Result{Err: err})
	}
}

// countEntries is how many entries proposals become at most.
func countEntries(proposals []*Proposal) (n int) {
	for _, p := range proposals {
		n += max(1, len(p.Batches))
	}
	return n
}

// refusal says why no proposal is taken now, or nil.
func (r *Replica) refusal() error {
	switch {
	case r.err != nil:
		return r.err
	case r.role != raft.StateLeader:
		return ErrNotLeader
	case r.term > math.MaxInt32:
		return ErrTermTooLarge
	case !r.serves:
		return ErrNotReady
	}
	return nil
}

// encodeCommand checks a command against the newest state and encodes it.
func (r *Replica) encodeCommand(p *Proposal) ([]byte, error) {
	if start := p.Command.GetAdvanceStart(); start != nil {
		if offset := start.GetOffset(); offset < 0 || offset > r.highWatermark {
			return nil, fmt.Errorf("%w: %d is not in 0..%d", ErrStartOutOfRange, offset, r.highWatermark)
		}
	}
	if err := r.checkCold(p.Command); err != nil {
		return nil, err
	}
	data, err := marshalCommand(p.Command)
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	if fence := p.Command.GetFence(); fence != nil {
		epoch := fence.GetOwnerEpoch()
		if newest := max(r.state.OwnerEpoch, r.fenceInFlight); epoch < newest {
			return nil, &FencedError{Epoch: epoch, Fence: newest}
		}
		r.fenceInFlight = epoch
	}
	return data, nil
}

// checkCold refuses what would not count once it is applied: an object of another
// term than this leader's.
func (r *Replica) checkCold(command *persistv1.Command) error {
	var object *persistv1.ColdObject
	switch kind := command.GetKind().(type) {
	case *persistv1.Command_ColdIntent:
		object = kind.ColdIntent.GetObject()
	case *persistv1.Command_ColdAdded:
		object = kind.ColdAdded.GetSegment().GetObject()
	default:
		return nil
	}
	if object.GetTerm() != r.term {
		return fmt.Errorf("%w: object of term %d in term %d", ErrNotLeader, object.GetTerm(), r.term)
	}
	return nil
}
