package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// Raft's timing in ticks. Groups of one replica never tick.
const (
	electionTicks  = 10
	heartbeatTicks = 2
)

// Raft counts entries by their Data, which for us are headers; these limits are
// therefore limits on the number of entries. Limits on bytes are ours, in the
// queues before Propose and in the transport.
const (
	maxMessageHeaders = 64 << 10
	maxInflight       = 256
	maxApplyHeaders   = 1 << 20
)

const (
	defaultKeepEntries = 128
	// lagFactor is how many times as many entries a replica that lags may hold
	// back, before it will need a snapshot.
	lagFactor = 8
)

// Options are what a replica is made of.
type Options struct {
	Key Key
	// ID is the replica's Raft id; never used twice in a partition.
	ID     uint64
	Log    *raftlog.Log
	Logger *slog.Logger
	// Now gives the time for measurements, and for when a producer was last heard
	// of.
	Now func() time.Time
	// Producers bounds what is remembered of producers.
	Producers producer.Bounds
	// FlushEvery is how many records a sole replica may acknowledge before a
	// sync. 0 and 1 sync before each acknowledgement; so does a replica that has
	// others, whatever is set, since Raft cannot live with less.
	FlushEvery int
	// KeepEntries is how many of Raft's entries that are no batch are kept for
	// replicas that lag; up to twice as many are held. 0 is 128.
	KeepEntries int
	// Committed is called by the owner after the high watermark rose, once for
	// each Ready at most. It must not block. May be nil.
	Committed func()
}

// Replica is one replica of a partition. All methods but View are for the owner:
// one caller at a time.
type Replica struct {
	options Options
	log     *raftlog.Log
	raw     *raft.RawNode
	conf    *raftpb.ConfState

	role   raft.StateType
	leader uint64
	term   uint64
	// serves is true while an entry of this replica's own term, as leader, is
	// applied.
	serves bool
	// votedIn and vote are the term and the vote that are durable.
	votedIn, vote uint64
	applied       uint64
	commit        uint64
	state         State
	// ahead is the producers of the applied state, and on top of them, while this
	// replica leads, those of the batches that are appended and not applied.
	ahead producer.Ahead
	// highWatermark is the offset after the last applied batch.
	highWatermark int64
	// fenceInFlight is the highest fence that was proposed in this leadership;
	// it guards appends that come after it in the log, before it is applied.
	fenceInFlight int64

	stash stash
	// waiting holds appended proposals; nil when there are none.
	waiting *pendingList
	outbox  []Message
	// confirming holds reads that must be current.
	confirming confirmations

	// stage is a snapshot that was received and stepped, until Run has installed
	// or discarded it; stageIndex is its index.
	stage      *raftlog.Stage
	stageIndex uint64
	// unsynced counts the records since the last sync, where FlushEvery allows
	// any.
	unsynced int
	// pointed is the base of the active segment when the last point was written:
	// a point follows each roll, so that recovery applies little.
	pointed int64

	err  error
	view atomic.Pointer[View]
}

// New makes a replica over its opened log and applies what is known to be
// committed. It does not campaign.
func New(options Options) (r *Replica, err error) {
	recovered := options.Log.Recovered()
	r = &Replica{
		options: options,
		log:     options.Log,
		conf:    recovered.ConfState,
		applied: recovered.Applied,
		role:    raft.StateFollower,
	}
	if err := r.restore(recovered.State); err != nil {
		return nil, fmt.Errorf("open replica %s: %w", options.Key, err)
	}
	if r.highWatermark, err = r.log.OffsetAt(r.applied); err != nil {
		return nil, fmt.Errorf("open replica %s: %w", options.Key, err)
	}
	r.pointed = r.log.ActiveBase()
	if r.options.KeepEntries == 0 {
		r.options.KeepEntries = defaultKeepEntries
	}
	defer r.recoverPanic(&err)
	r.raw, err = raft.NewRawNode(&raft.Config{
		ID:                        options.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   initialState{Log: options.Log, id: options.ID},
		Applied:                   r.applied,
		MaxSizePerMsg:             maxMessageHeaders,
		MaxCommittedSizePerReady:  maxApplyHeaders,
		MaxInflightMsgs:           maxInflight,
		CheckQuorum:               true,
		PreVote:                   true,
		Logger:                    raftLogger{options.Logger},
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
	})
	if err != nil {
		return nil, fmt.Errorf("open replica %s: %w", options.Key, err)
	}
	status := r.raw.BasicStatus()
	r.term, r.commit = status.GetTerm(), status.GetCommit()
	r.votedIn, r.vote = status.GetTerm(), status.GetVote()
	r.publish()
	if err := r.Run(); err != nil {
		return nil, err
	}
	return r, nil
}

// initialState is the log as Raft's storage. A sole member's log is committed as
// far as it is durable, and what recovery kept is durable, so its commit index
// need never be written.
type initialState struct {
	*raftlog.Log
	id uint64
}

func (s initialState) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hard, conf, err := s.Log.InitialState()
	if err != nil {
		return nil, nil, err
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return nil, nil, err
	}
	commit := min(hard.GetCommit(), last)
	if isSole(conf, s.id) {
		commit = last
	}
	hard = &raftpb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(commit)}
	return hard, conf, nil
}

func isSole(conf *raftpb.ConfState, id uint64) bool {
	voters := conf.GetVoters()
	return len(voters) == 1 && voters[0] == id &&
		len(conf.GetVotersOutgoing()) == 0 && len(conf.GetLearners()) == 0 && len(conf.GetLearnersNext()) == 0
}

// View returns the newest published view. Any goroutine may call it.
func (r *Replica) View() *View { return r.view.Load() }

// Err returns the failure that stopped the replica, or nil.
func (r *Replica) Err() error { return r.err }

// Log returns the replica's log.
func (r *Replica) Log() *raftlog.Log { return r.log }

// Campaign starts an election. A sole member has won it after the next Run.
func (r *Replica) Campaign() (err error) {
	if r.err != nil {
		return r.err
	}
	if r.term >= math.MaxInt32 {
		return fmt.Errorf("campaign for %s in term %d: %w", r.options.Key, r.term+1, ErrTermTooLarge)
	}
	defer r.recoverPanic(&err)
	return r.raw.Campaign()
}

// ForgetLeader makes a follower willing to vote though it heard of its leader
// lately: for when the leader's node is known to be dead.
func (r *Replica) ForgetLeader() (err error) {
	if r.err != nil {
		return r.err
	}
	defer r.recoverPanic(&err)
	return r.raw.ForgetLeader()
}

// Tick advances Raft's clock by one tick.
func (r *Replica) Tick() (err error) {
	if r.err != nil {
		return r.err
	}
	defer r.recoverPanic(&err)
	r.raw.Tick()
	return nil
}

// Step takes in a message from another replica. An error means that the message
// was refused; the replica is as it was unless Err is set.
func (r *Replica) Step(m Message) (err error) {
	if r.err != nil {
		return r.err
	}
	if err := m.validate(); err != nil {
		return fmt.Errorf("step %s: %w", r.options.Key, err)
	}
	for i, entry := range m.Raft.GetEntries() {
		if m.Payloads[i] != nil {
			r.stash.step(entry, m.Payloads[i])
		}
	}
	defer r.recoverPanic(&err)
	if err := r.raw.Step(m.Raft); err != nil && !errors.Is(err, raft.ErrProposalDropped) {
		return fmt.Errorf("step %s: %w", r.options.Key, err)
	}
	return nil
}

// ReportUnreachable tells Raft that a message to a replica was lost.
func (r *Replica) ReportUnreachable(id uint64) (err error) {
	if r.err != nil {
		return r.err
	}
	defer r.recoverPanic(&err)
	r.raw.ReportUnreachable(id)
	return nil
}

// Outbox hands over the messages that Run collected, in order.
func (r *Replica) Outbox() []Message {
	out := r.outbox
	r.outbox = nil
	return out
}

// Stop answers all that waits and closes the log, with a clean-stop marker where
// the replica is sound.
func (r *Replica) Stop() error {
	if r.err != nil {
		return r.log.Close(nil)
	}
	point, err := r.point()
	if err != nil {
		return errors.Join(err, r.log.Close(nil))
	}
	r.fail(ErrStopped)
	return r.log.Close(point)
}

// Abandon answers all that waits and closes the log as a crash would leave it:
// for a replica that is to be removed or reopened.
func (r *Replica) Abandon() error {
	r.fail(ErrStopped)
	return r.log.Close(nil)
}

// fail stops the replica: nothing is done any more, all that waits is answered.
func (r *Replica) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.dropWaiting(fmt.Errorf("%w: %w", ErrUnknownOutcome, err))
	r.confirmNothing(err)
	r.stash.clear()
	r.ahead.Clear()
	r.discardStage()
	r.serves = false
	r.role, r.leader = raft.StateFollower, 0
	r.publish()
}

// recoverPanic turns a panic below into the replica's failure. Raft panics when
// its invariants break; then this group has ended, not the process.
func (r *Replica) recoverPanic(err *error) {
	if value := recover(); value != nil {
		*err = r.panicked(value)
	}
}

// panicked fails the replica: what its state is after a panic nobody knows.
func (r *Replica) panicked(value any) error {
	err := fmt.Errorf("replica %s: panic: %v", r.options.Key, value)
	r.options.Logger.Error("replica failed", "partition", r.options.Key.String(), "error", err, "stack", string(debug.Stack()))
	r.fail(err)
	return err
}

func (r *Replica) publish() {
	view := &View{
		Role:          r.roleName(),
		Leader:        r.leader,
		Term:          r.term,
		Serves:        r.serves,
		State:         r.state,
		HighWatermark: r.highWatermark,
		LogEnd:        r.log.NextOffset(),
		Commit:        r.commit,
		Producers:     r.ahead.Table.Len(),
		Sole:          isSole(r.conf, r.options.ID),
	}
	view.Last, _ = r.log.LastIndex()
	r.view.Store(view)
}

func (r *Replica) roleName() Role {
	switch r.role {
	case raft.StateLeader:
		return RoleLeader
	case raft.StateCandidate, raft.StatePreCandidate:
		return RoleCandidate
	}
	for _, id := range r.conf.GetLearners() {
		if id == r.options.ID {
			return RoleLearner
		}
	}
	return RoleFollower
}
