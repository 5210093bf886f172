package replica_test

import (
	"bytes"

	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// simCold is the cold storage of a group. What leaders do with it is done in
// steps, between which everything else may happen.
type simCold struct {
	// objects have the batches of each object.
	objects map[tier.Object][]byte
	nonce   uint64
	// late are uploads that somebody has given up, and that may end all the same.
	late []simUpload
	// start is the highest start offset that any replica has shown.
	start int64
	// segments counts what became one, drops the segments that replicas dropped.
	segments, drops int
}

// simUpload is an upload that a replica has under way.
type simUpload struct {
	object  tier.Object
	next    int64
	content []byte
	there   bool
	// waits tells that a command is proposed, and not answered.
	waits bool
}

// coldStep does one step of a replica's traffic with cold storage. A leader that
// was deposed and has not heard of it does the same.
func (s *sim) coldStep(n *simNode) {
	if len(s.cold.late) > 0 && s.rng.IntN(4) == 0 {
		u := s.cold.late[0]
		s.cold.late = s.cold.late[1:]
		s.say("a late upload of %v ends", u.object)
		s.cold.objects[u.object] = u.content
		return
	}
	if s.rng.IntN(3) == 0 {
		s.dropLocal(n)
		return
	}
	// A while without faults, or few uploads would come to their end.
	for range s.rng.IntN(20) {
		s.deliver(false)
	}
	for _, leader := range s.nodes {
		if leader.r.View().Serves {
			s.coldRemote(leader)
		}
	}
}

// coldRemote does one step of what a leader does.
func (s *sim) coldRemote(n *simNode) {
	view := n.r.View()
	switch u := n.upload; {
	case s.rng.IntN(4) == 0:
		s.coldClean(n, view)
	case u == nil:
		s.coldIntend(n, view)
	case u.waits:
	case s.rng.IntN(10) == 0:
		s.say("upload of %v fails at %d", u.object, n.id)
		s.cold.late = append(s.cold.late, *u)
		n.upload = nil
	case !u.there:
		s.say("upload of %v at %d", u.object, n.id)
		s.cold.objects[u.object], u.there = u.content, true
	default:
		s.coldAdd(n, u)
	}
}

func (s *sim) command(n *simNode, command *persistv1.Command, done func(replica.Result)) {
	require.NoError(s.t, n.r.Propose([]*replica.Proposal{{OwnerEpoch: replica.NoOwner, Command: command, Done: done}}))
	s.after(n)
}

// coldIntend names the object of the segment that is due; the upload begins when
// that is committed.
func (s *sim) coldIntend(n *simNode, view *replica.View) {
	var local []tier.Local
	for _, segment := range n.log.Stats().Segments {
		local = append(local, tier.Local{Base: segment.Base, Next: segment.Next, Sealed: segment.Sealed})
	}
	i, from, due := view.State.Cold.Due(local, view.State.StartOffset, view.HighWatermark)
	if !due || len(view.State.Cold.Intents()) > 0 {
		return
	}
	s.cold.nonce++
	u := &simUpload{object: tier.Object{Base: from, Term: view.Term, Nonce: s.cold.nonce}, next: local[i].Next}
	for at := from; at < u.next; {
		chunk, err := n.log.Read(at, u.next, 1<<20)
		require.NoError(s.t, err)
		u.content, at = append(u.content, chunk.Bytes...), chunk.Next
	}
	s.say("intent of %v up to %d at %d", u.object, u.next, n.id)
	n.upload, u.waits = u, true
	s.command(n, &persistv1.Command{Kind: &persistv1.Command_ColdIntent{
		ColdIntent: tier.Intent{Object: u.object, Next: u.next}.Command(1),
	}}, func(result replica.Result) {
		if u.waits = false; result.Err != nil && n.upload == u {
			n.upload = nil
		}
	})
}

func (s *sim) coldAdd(n *simNode, u *simUpload) {
	u.waits = true
	s.say("added %v at %d", u.object, n.id)
	segment := tier.Segment{Object: u.object, Next: u.next, Size: int64(len(u.content))}
	for rest := u.content; len(rest) > 0; {
		h, err := recordbatch.ParseHeader(rest)
		require.NoError(s.t, err)
		if k := len(segment.Epochs); k == 0 || segment.Epochs[k-1].Term != uint64(h.LeaderEpoch) {
			segment.Epochs = append(segment.Epochs, tier.Epoch{Term: uint64(h.LeaderEpoch), Start: h.BaseOffset})
		}
		rest = rest[h.Size():]
	}
	s.command(n, &persistv1.Command{Kind: &persistv1.Command_ColdAdded{
		ColdAdded: &persistv1.ColdAdded{Segment: segment.Encode()},
	}}, func(result replica.Result) {
		if n.upload == u {
			n.upload = nil
		}
		if result.Err == nil {
			s.cold.segments++
		}
	})
}

// coldClean deletes what is to go and says so.
func (s *sim) coldClean(n *simNode, view *replica.View) {
	removed := &persistv1.ColdRemoved{}
	var active *tier.Object
	if n.upload != nil && n.upload.object.Term == view.Term {
		active = &n.upload.object
	}
	for _, o := range view.State.Cold.Doomed(active, 1+s.rng.IntN(3)) {
		s.say("delete %v at %d", o, n.id)
		delete(s.cold.objects, o)
		removed.Objects = append(removed.Objects, o.Encode())
	}
	if len(removed.GetObjects()) > 0 && s.rng.IntN(4) > 0 {
		s.command(n, &persistv1.Command{Kind: &persistv1.Command_ColdRemoved{ColdRemoved: removed}}, func(replica.Result) {})
	}
}

// dropLocal has a replica drop segments that are in cold storage, with a crash on
// the way.
func (s *sim) dropLocal(n *simNode) {
	s.say("drop local segments of %d", n.id)
	if s.rng.IntN(100) < s.crashPercent {
		n.crash = &crash{left: 1 + s.rng.IntN(8), power: s.rng.IntN(2) == 0}
	}
	dropped, _, err := n.r.TrimLocal(s.rng.Int64N(n.r.View().HighWatermark + 1))
	if n.crash != nil && n.crash.image != nil {
		s.revive(n)
		return
	}
	n.crash = nil
	require.NoError(s.t, err)
	s.cold.drops += dropped
}

// checkCold compares what a replica has in cold storage, and perhaps nowhere else,
// with what was committed.
func (s *sim) checkCold(n *simNode, view *replica.View) {
	if view.State.StartOffset < n.log.StartOffset() {
		_, ok := view.State.Cold.Find(view.State.StartOffset)
		require.True(s.t, ok, "offset %d of %d is nowhere", view.State.StartOffset, n.id)
		require.GreaterOrEqual(s.t, view.State.Cold.End(0), n.log.StartOffset(), "a gap between cold storage and %d", n.id)
	}
	// A replica that is behind may have segments whose objects are gone already.
	s.cold.start = max(s.cold.start, view.State.StartOffset)
	for _, segment := range view.State.Cold.Segments() {
		if s.cold.start >= segment.Next {
			continue
		}
		content, ok := s.cold.objects[segment.Object]
		require.True(s.t, ok, "the object of segment %d is gone, as %d has it", segment.Base, n.id)
		at := segment.Base
		for rest := content; len(rest) > 0; {
			h, err := recordbatch.ParseHeader(rest)
			require.NoError(s.t, err)
			require.Equal(s.t, at, h.BaseOffset)
			require.True(s.t, bytes.Equal(s.committed[at], rest[:h.Size()]), "another batch at %d in cold storage", at)
			require.Equal(s.t, h.LeaderEpoch, segment.EpochAt(at))
			rest, at = rest[h.Size():], h.NextOffset()
		}
		require.Equal(s.t, segment.Next, at)
	}
}

// inCold looks an acknowledged append up in cold storage, where a replica says that
// it is.
func (s *sim) inCold(view *replica.View, offset int64, number uint64) bool {
	segment, ok := view.State.Cold.Find(offset)
	require.True(s.t, ok, "acknowledged offset %d is nowhere", offset)
	for rest := s.cold.objects[segment.Object]; len(rest) > 0; {
		h, err := recordbatch.ParseHeader(rest)
		require.NoError(s.t, err)
		if h.BaseOffset == offset {
			require.Equal(s.t, number, numberOf(s.t, rest[:h.Size()]))
			return true
		}
		rest = rest[h.Size():]
	}
	return false
}

// finishCold has the leader do all that is due. Then the store has the objects of
// the segments and nothing else.
func (s *sim) finishCold() {
	leader := s.nodes[0]
	for _, n := range s.nodes {
		if n.upload != nil {
			s.cold.late = append(s.cold.late, *n.upload)
			n.upload = nil
		}
		if n.r.View().Serves {
			leader = n
		}
	}
	for _, u := range s.cold.late {
		s.cold.objects[u.object] = u.content
	}
	s.cold.late = nil
	view := leader.r.View()
	removed := &persistv1.ColdRemoved{}
	for _, o := range view.State.Cold.Doomed(nil, 1000) {
		delete(s.cold.objects, o)
		removed.Objects = append(removed.Objects, o.Encode())
	}
	s.command(leader, &persistv1.Command{Kind: &persistv1.Command_ColdRemoved{ColdRemoved: removed}}, func(replica.Result) {})
	s.settle()
	view = leader.r.View()
	var found []tier.Object
	for o := range s.cold.objects {
		found = append(found, o)
	}
	for _, o := range view.State.Cold.Strays(found, view.Term) {
		delete(s.cold.objects, o)
	}
	require.Len(s.t, s.cold.objects, len(view.State.Cold.Segments()))
	require.Empty(s.t, view.State.Cold.Intents())
	require.Empty(s.t, view.State.Cold.Garbage())
}
