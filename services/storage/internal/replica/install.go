package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// StepSnapshot takes in a MsgSnap whose segments have been received: the stage is
// finished, so nothing that Raft accepts can turn out to be missing. Run installs
// it if Raft accepts it; if not, the stage is discarded.
func (r *Replica) StepSnapshot(m Message, stage *raftlog.Stage) error {
	if m.Raft.GetType() != raftpb.MsgSnap {
		return fmt.Errorf("step %s: %s is no snapshot", r.options.Key, m.Raft.GetType())
	}
	// A configuration without the receiver would be ignored by Raft without a
	// word.
	if conf := m.Raft.GetSnapshot().GetMetadata().GetConfState(); !contains(conf, r.options.ID) {
		return fmt.Errorf("step %s: the snapshot's configuration lacks replica %d", r.options.Key, r.options.ID)
	}
	r.discardStage()
	r.stage, r.stageIndex = stage, m.Raft.GetSnapshot().GetMetadata().GetIndex()
	return r.Step(m)
}

func contains(conf *raftpb.ConfState, id uint64) bool {
	for _, ids := range [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()} {
		for _, other := range ids {
			if other == id {
				return true
			}
		}
	}
	return false
}

// ReportSnapshot tells Raft what became of a MsgSnap from the outbox. It must be
// called for each.
func (r *Replica) ReportSnapshot(to uint64, received bool) (err error) {
	if r.err != nil {
		return r.err
	}
	status := raft.SnapshotFailure
	if received {
		status = raft.SnapshotFinish
	}
	defer r.recoverPanic(&err)
	r.raw.ReportSnapshot(to, status)
	return nil
}

// install puts the snapshot of a Ready in the log's place, with its hard state.
func (r *Replica) install(ready raft.Ready) error {
	metadata := ready.Snapshot.GetMetadata()
	if r.stage == nil || r.stageIndex != metadata.GetIndex() {
		return fmt.Errorf("snapshot at %d was accepted and never received", metadata.GetIndex())
	}
	stage := r.stage
	r.stage = nil
	if err := r.log.Install(stage, ready.HardState); err != nil {
		return fmt.Errorf("install snapshot at %d: %w", metadata.GetIndex(), err)
	}
	if err := r.restore(stage.Manifest().GetState()); err != nil {
		return err
	}
	if hard := ready.HardState; hard != nil {
		r.votedIn, r.vote = hard.GetTerm(), hard.GetVote()
	}
	r.conf, r.applied = metadata.GetConfState(), metadata.GetIndex()
	r.highWatermark = stage.Manifest().GetNextOffset()
	r.pointed = r.log.ActiveBase()
	return nil
}

func (r *Replica) discardStage() {
	if r.stage == nil {
		return
	}
	if err := r.stage.Abort(); err != nil {
		r.options.Logger.Warn("a snapshot's stage was left behind", "partition", r.options.Key.String(), "error", err)
	}
	r.stage = nil
}
