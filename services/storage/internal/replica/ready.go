package replica

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// Run does all that has become possible: writes, applies, answers. After an
// error the replica has failed and all that waited is answered.
func (r *Replica) Run() (err error) {
	if r.err != nil {
		return r.err
	}
	defer r.recoverPanic(&err)
	for r.askOthers(); r.raw.HasReady(); r.askOthers() {
		ready := r.raw.Ready()
		if err := r.handle(ready); err != nil {
			err = fmt.Errorf("replica %s: %w", r.options.Key, err)
			r.fail(err)
			return err
		}
		r.raw.Advance(ready)
	}
	r.stash.clear()
	r.discardStage()
	if err := r.pointAfterRoll(); err != nil {
		return err
	}
	return r.shorten()
}

func (r *Replica) handle(ready raft.Ready) error {
	r.softState(ready.SoftState)
	if ready.HardState != nil {
		if ready.GetTerm() != r.term {
			r.confirmNothing(errLeadershipWent)
		}
		r.term, r.commit = ready.GetTerm(), ready.GetCommit()
	}
	if err := r.collect(ready.Messages, true); err != nil {
		return err
	}
	if !raft.IsEmptySnap(ready.Snapshot) {
		if err := r.install(ready); err != nil {
			return err
		}
	}
	if err := r.write(ready); err != nil {
		return err
	}
	if err := r.apply(ready.CommittedEntries); err != nil {
		return err
	}
	// Published before it is answered: who has the answer finds the records.
	r.publish()
	r.answer()
	r.confirm(ready.ReadStates)
	if len(ready.CommittedEntries) > 0 && r.options.Committed != nil {
		r.options.Committed()
	}
	return r.collect(ready.Messages, false)
}

// softState takes note of a change of roles. A leader that steps down no longer
// knows what becomes of what it appended.
func (r *Replica) softState(soft *raft.SoftState) {
	if soft == nil {
		return
	}
	wasLeader := r.role == raft.StateLeader
	r.role, r.leader = soft.RaftState, soft.Lead
	if r.role != raft.StateLeader {
		r.serves = false
		if wasLeader {
			r.fenceInFlight = 0
			r.ahead.Clear()
			r.dropWaiting(fmt.Errorf("%w: leadership went", ErrUnknownOutcome))
			r.confirmNothing(errLeadershipWent)
		}
	}
}

// collect puts messages into the outbox: those that may leave before the sync,
// or those that may not.
func (r *Replica) collect(messages []*raftpb.Message, early bool) error {
	for _, m := range messages {
		if beforeSync(m) != early {
			continue
		}
		out := Message{Raft: m}
		if entries := m.GetEntries(); len(entries) > 0 {
			out.Payloads = make([][]byte, len(entries))
			for i, entry := range entries {
				if !isBatch(entry) {
					continue
				}
				payload, err := r.payload(entry)
				if err != nil {
					return err
				}
				out.Payloads[i] = payload
			}
		}
		r.outbox = append(r.outbox, out)
	}
	return nil
}

// payload returns the batch that an entry stands for, from the stash while it is
// not written yet.
func (r *Replica) payload(entry *raftpb.Entry) ([]byte, error) {
	if payload := r.stash.payload(entry); payload != nil {
		return append(bytes.Clone(entry.GetData()), payload[recordbatch.HeaderSize:]...), nil
	}
	payload, err := r.log.Payload(entry.GetIndex())
	if err != nil {
		return nil, fmt.Errorf("payload of entry %d: %w", entry.GetIndex(), err)
	}
	return payload, nil
}

// write makes a Ready durable. A sole member need not even note a risen commit
// index; see initialState.
func (r *Replica) write(ready raft.Ready) error {
	if len(ready.Entries) == 0 && !ready.MustSync && isSole(r.conf, r.options.ID) {
		return nil
	}
	w := raftlog.Write{Entries: ready.Entries, Commit: r.commit}
	if hard := ready.HardState; hard != nil && (hard.GetTerm() != r.votedIn || hard.GetVote() != r.vote) {
		w.HardState = proto.CloneOf(hard)
	}
	w.MayDefer = w.HardState == nil && r.maySkipSync(ready.Entries)
	if len(ready.Entries) > 0 {
		w.Payloads = make([][]byte, len(ready.Entries))
		for i, entry := range ready.Entries {
			if !isBatch(entry) {
				continue
			}
			if w.Payloads[i] = r.stash.payload(entry); w.Payloads[i] == nil {
				return fmt.Errorf("entry %d of term %d has lost its payload", entry.GetIndex(), entry.GetTerm())
			}
		}
	}
	began := r.options.Now()
	if err := r.log.Write(w); err != nil {
		return err
	}
	if w.HardState != nil {
		r.votedIn, r.vote = w.HardState.GetTerm(), w.HardState.GetVote()
	}
	if len(ready.Entries) > 0 {
		r.written(ready.Entries[len(ready.Entries)-1].GetIndex(), began, r.options.Now())
	}
	return nil
}

// maySkipSync tells whether FlushEvery lets these entries go without a sync, and
// counts their records. Only batches may: Raft's own entries are always synced.
func (r *Replica) maySkipSync(entries []*raftpb.Entry) bool {
	if r.options.FlushEvery <= 1 || !isSole(r.conf, r.options.ID) {
		return false
	}
	for _, entry := range entries {
		if !isBatch(entry) {
			r.unsynced = 0
			return false
		}
		r.unsynced += batchRecords(entry.GetData())
	}
	if r.unsynced < r.options.FlushEvery {
		return true
	}
	r.unsynced = 0
	return false
}

// written notes when the proposals up to an index became durable here.
func (r *Replica) written(last uint64, began, ended time.Time) {
	waiting := r.waiting.all()
	for i := range waiting {
		if p := &waiting[i]; p.last <= last && p.ended.IsZero() {
			p.began, p.ended = began, ended
		}
	}
}

// apply applies committed entries in order.
func (r *Replica) apply(entries []*raftpb.Entry) error {
	for _, entry := range entries {
		if err := r.applyEntry(entry); err != nil {
			return fmt.Errorf("apply entry %d: %w", entry.GetIndex(), err)
		}
		r.applied = entry.GetIndex()
		if entry.GetTerm() == r.term && r.role == raft.StateLeader {
			r.serves = true
		}
	}
	r.log.Release(r.applied)
	return nil
}

func (r *Replica) applyEntry(entry *raftpb.Entry) error {
	switch entry.GetType() {
	case raftpb.EntryConfChange:
		var change raftpb.ConfChange
		if err := proto.Unmarshal(entry.GetData(), &change); err != nil {
			return fmt.Errorf("configuration change: %w", err)
		}
		r.conf = r.raw.ApplyConfChange(&change)
	case raftpb.EntryConfChangeV2:
		var change raftpb.ConfChangeV2
		if err := proto.Unmarshal(entry.GetData(), &change); err != nil {
			return fmt.Errorf("configuration change: %w", err)
		}
		r.conf = r.raw.ApplyConfChange(&change)
	case raftpb.EntryNormal:
		data := entry.GetData()
		switch {
		case len(data) == 0:
		case isBatch(entry):
			if base := int64(binary.BigEndian.Uint64(data)); base < r.highWatermark {
				return fmt.Errorf("batch at offset %d below the high watermark %d", base, r.highWatermark)
			}
			r.highWatermark = batchEnd(data)
			return r.applyProducer(data)
		default:
			command, err := unmarshalCommand(data)
			if err != nil {
				return err
			}
			return r.state.apply(command, entry.GetTerm())
		}
	}
	return nil
}
