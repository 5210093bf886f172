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
		offset  = r.log.NextOffset()
		entries = make([]*raftpb.Entry, 0, len(proposals))
		headers = make([]byte, countBatches(proposals)*recordbatch.HeaderSize)
		began   = len(r.waiting)
		flying  = r.ahead.Len()
		now     = r.options.Now().UnixMilli()
	)
	for _, p := range proposals {
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
				r.waiting = append(r.waiting, r.original(p, verdict, last+uint64(len(entries))))
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
			entries = append(entries, &raftpb.Entry{Data: data})
		}
		for i, batch := range p.Batches {
			if p.Producer != nil {
				p.Producer.Batches[i].Offset = offset
				r.ahead.Add(p.Producer.Batches[i], now)
			}
			// The header is stamped in a copy: the batch is the caller's, who may
			// try again with it.
			header := headers[:recordbatch.HeaderSize:recordbatch.HeaderSize]
			headers = headers[recordbatch.HeaderSize:]
			copy(header, batch)
			recordbatch.Stamp(header, offset, int32(r.term))
			offset = batchEnd(header)
			entries = append(entries, &raftpb.Entry{Data: header})
			r.stash[entryID{last + uint64(len(entries)), r.term}] = batch
		}
		r.waiting = append(r.waiting, pending{
			proposal: p, term: r.term, last: last + uint64(len(entries)), base: base, end: offset,
		})
	}
	if len(entries) == 0 {
		// Duplicates may be answered already.
		r.answer()
		return nil
	}
	defer r.recoverPanic(&err)
	err = r.raw.Step(&raftpb.Message{
		Type: raftpb.MsgProp.Enum(), From: new(r.options.ID), Entries: entries,
	})
	if err == nil {
		return nil
	}
	// Dropped: nothing was appended.
	clear(r.stash)
	r.ahead.Cut(flying, now)
	dropped := r.waiting[began:]
	r.waiting = r.waiting[:began:began]
	refusal := fmt.Errorf("%w: %w", ErrNotLeader, err)
	for _, p := range dropped {
		p.proposal.Done(Result{Err: refusal})
	}
	if errors.Is(err, raft.ErrProposalDropped) {
		return nil
	}
	return fmt.Errorf("propose to %s: %w", r.options.Key, err)
}

// refuse answers proposals of which nothing was appended.
func refuse(proposals []*Proposal, err error) {
	for _, p := range proposals {
		p.Done(Result{Err: err})
	}
}

func countBatches(proposals []*Proposal) (n int) {
	for _, p := range proposals {
		n += len(p.Batches)
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
