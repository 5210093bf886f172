package replica

// Role is what a replica is in its group.
type Role string

// The roles of a replica.
const (
	RoleLeader    Role = "leader"
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate"
	RoleLearner   Role = "learner"
)

// View is what others may know of a replica: a value that is swapped whole.
type View struct {
	Role Role
	// Leader is the leader's replica id, 0 when there is none.
	Leader uint64
	// Term is the current term; a leader epoch.
	Term uint64
	// Serves tells that the replica leads and has applied an entry of its own
	// term.
	Serves bool
	// State is the applied state.
	State State
	// HighWatermark is the offset after the last committed batch;
	// State.StartOffset <= HighWatermark <= LogEnd.
	HighWatermark int64
	// LogEnd is the offset after the last batch in the log.
	LogEnd int64
	// Commit and Last are Raft indexes; Commit <= Last.
	Commit, Last uint64
	// Producers is how many producers the applied state knows.
	Producers int
	// Sole tells that the replica is its group's only member. Then all that is
	// durable is committed, and it answers reads without an election.
	Sole bool
}

// Readable tells whether the replica may answer reads.
func (v *View) Readable() bool { return v.Serves || v.Sole }
