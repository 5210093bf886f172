package raftlog_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/invariant"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

var (
	histories = flag.Uint64("raftlog.histories", fewer(2000, 150), "random histories to try")
	history   = flag.Uint64("raftlog.history", 0, "the one history to try")
)

// fewer is the number of times to try something, which the race detector makes
// ten times as slow.
func fewer(usually, race uint64) uint64 {
	if invariant.Enabled {
		return race
	}
	return usually
}

const dir = "/data/p"

var errDead = errors.New("the process is dead")

// world is a log on a disk that can crash, and the model that it must equal.
type world struct {
	t          testing.TB
	rng        *rand.Rand
	disk       *memfs.FS
	log        *raftlog.Log
	model      *model
	files      *raftlog.FileCache
	replicated bool
	limits     raftlog.Limits
	now        int64
	zeroing    []func() // what the scheduler was given
	zeros      bool
	terms      uint64 // the largest ever used
	trace      []string

	// weak are points that may still be the last one: a kill left a newer one in
	// the page cache alone. It only repeats what the log says, so Open does not
	// pay for a sync, and neither does a Sleep that finds nothing to do.
	weak []raftlog.Point

	installing *model // what a snapshot that is being installed leads to

	// The process dies before file operation number dieAt, counted from 1; 0:
	// it lives. A write that it dies in may be done in part.
	dieAt, ops int
	dead       bool
	failWith   error      // instead of dying: this one operation fails
	failOp     faultfs.Op // every operation of this kind fails
	tornNote   bool       // a write to the journal was done in part, and it may have been the note
}

func newWorld(t testing.TB, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &world{
		t: t, rng: rng, disk: memfs.New(), files: raftlog.NewFileCache(1 + rng.IntN(4)), replicated: rng.IntN(2) == 0,
		limits: raftlog.Limits{SegmentBytes: int64(100 + rng.IntN(2000)), SegmentMs: 1000, IndexInterval: int64(1 + rng.IntN(400))},
		now:    1_000_000, zeros: rng.IntN(16) == 0, terms: 1,
	}
	if rng.IntN(8) == 0 {
		w.limits.SegmentBytes = 1 << 20
	}
	require.NoError(t, w.disk.MkdirAll("/data"))
	require.NoError(t, w.disk.SyncDir("/"))
	log, err := raftlog.Create(w.options(), raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(t, err)
	w.log, w.model = log, newModel(confState(1))
	return w
}

func (w *world) options() raftlog.Options {
	o := raftlog.Options{
		FS: faultfs.New(w.disk, w.hook), Dir: dir, Replicated: w.replicated, Files: w.files,
		Limits: func() raftlog.Limits { return w.limits },
		Now:    func() time.Time { return time.UnixMilli(w.now) },
	}
	if w.zeros {
		o.Scheduler = func(f func()) { w.zeroing = append(w.zeroing, f) }
	}
	return o
}

// hook counts operations that change something or could.
func (w *world) hook(op faultfs.Op, name string) error {
	if op == faultfs.Close {
		return nil
	}
	if w.dead {
		return errDead
	}
	if op == w.failOp {
		return errDead
	}
	w.ops++
	if w.dieAt == 0 || w.ops != w.dieAt {
		return nil
	}
	err := w.failWith
	if err == nil {
		w.dead, err = true, errDead
	}
	w.logf("  %s of %s fails", op, name)
	if (op == faultfs.WriteAt || op == faultfs.WritevAt) && w.rng.IntN(2) == 0 {
		w.tornNote = strings.Contains(name, journal.Name)
		return &faultfs.Short{N: w.rng.IntN(600), Err: err}
	}
	return err
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// check fails the test with the history that led here.
func (w *world) check(err error) {
	w.t.Helper()
	if err == nil {
		return
	}
	for _, line := range w.trace {
		w.t.Log(line)
	}
	require.NoError(w.t, err)
}

// someWrite is what a Ready of raft may ask for.
func (w *world) someWrite() raftlog.Write {
	m := w.model
	var out raftlog.Write
	index, term, next := m.last()+1, m.term(m.last()), m.next()
	begin := func() {
		w.terms++
		term = w.terms
		out.HardState = &raftpb.HardState{Term: new(term), Vote: new(uint64(1 + w.rng.IntN(3))), Commit: new(uint64(0))}
		out.Entries = append(out.Entries, other(index, term, raftpb.EntryNormal, nil))
		out.Payloads = append(out.Payloads, nil)
		index++
	}
	switch {
	case m.last() > m.known && w.rng.IntN(8) == 0: // a conflicting tail
		index = m.known + 1 + uint64(w.rng.Int64N(int64(m.last()-m.known)))
		next = m.at(index - 1).next
		begin()
	case term == 1 || w.rng.IntN(12) == 0:
		begin()
	case w.rng.IntN(20) == 0: // a vote alone
		w.terms++
		out.HardState = &raftpb.HardState{Term: new(w.terms), Vote: new(uint64(1 + w.rng.IntN(3))), Commit: new(m.commit)}
	}
	if out.HardState == nil || len(out.Entries) > 0 {
		for range w.rng.IntN(5) {
			if w.rng.IntN(8) == 0 {
				kind, data := raftpb.EntryNormal, []byte("\x01command")
				if w.rng.IntN(3) == 0 {
					kind, data = raftpb.EntryConfChangeV2, nil
				}
				out.Entries = append(out.Entries, other(index, term, kind, data))
				out.Payloads = append(out.Payloads, nil)
				index++
				continue
			}
			b := w.someBatch(next, term)
			out.Entries = append(out.Entries, entryOf(index, term, b))
			out.Payloads = append(out.Payloads, b)
			index++
			next += int64(b[26]) + 1 // last offset delta
		}
	}
	last := max(m.last(), index-1)
	if len(out.Entries) > 0 {
		last = index - 1
	}
	out.Commit = m.commit
	if w.rng.IntN(2) == 0 {
		out.Commit += uint64(w.rng.Int64N(int64(last - m.commit + 1)))
	}
	return out
}

func (w *world) someBatch(base int64, term uint64) []byte {
	value := make([]byte, w.rng.IntN(60))
	if w.rng.IntN(30) == 0 {
		value = make([]byte, 2000+w.rng.IntN(9000)) // several sectors and pages
	}
	for i := range value {
		value[i] = byte(w.rng.Uint32())
	}
	timestamps := make([]int64, 1+w.rng.IntN(3))
	for i := range timestamps {
		timestamps[i] = w.now - w.rng.Int64N(5000)
	}
	return batch(w.t, base, int32(term), value, timestamps...)
}

// somePoint is one at or after the last and at most at the commit index.
func (w *world) somePoint() raftlog.Point {
	m := w.model
	p := raftlog.Point{
		Applied:   m.point.Applied + uint64(w.rng.Int64N(int64(m.commit-m.point.Applied+1))),
		ConfState: confState(1, uint64(2+w.rng.IntN(5))),
		State:     make([]byte, w.rng.IntN(400)),
	}
	if w.rng.IntN(2) == 0 {
		p.Applied = m.commit
	}
	for i := range p.State {
		p.State[i] = byte(w.rng.Uint32())
	}
	return p
}

// dropped is what DropBefore may have done to the model.
func (w *world) dropped() {
	first, _ := w.log.FirstIndex()
	w.model.first, w.model.start = first, w.log.StartOffset()
}

// step does one thing to log and model. If the process dies in it, the model
// becomes what the next process finds.
func (w *world) step() {
	m := w.model
	w.now += w.rng.Int64N(100)
	switch w.rng.IntN(19) {
	case 18:
		p, keep, needed := w.somePoint(), 1+w.rng.IntN(3), uint64(math.MaxUint64)
		if w.rng.IntN(3) == 0 {
			needed = m.first + uint64(w.rng.Int64N(int64(m.last()-m.first+2)))
		}
		w.logf("shorten at %d to %d, %d needed, %d there", p.Applied, keep, needed, w.log.JournalEntries())
		shortened, err := w.log.Shorten(p, keep, needed)
		if w.try(err, nil, &p, true) && shortened {
			m.point, w.weak = p, nil
			w.check(w.shortenAllowed(needed))
			w.dropped()
		}
	case 17:
		w.swap()
	case 16:
		w.install()
	case 0:
		p := w.somePoint()
		w.logf("point at %d", p.Applied)
		if w.try(w.log.WritePoint(p), nil, &p, false) {
			m.point, w.weak = p, nil
		}
	case 1:
		offset := m.start + w.rng.Int64N(m.next()-m.start+1)
		w.logf("drop before %d, applied %d", offset, m.point.Applied)
		_, _, err := w.log.DropBefore(offset)
		if w.try(err, nil, nil, true) {
			w.check(w.dropsAllowed(offset))
			w.dropped()
		}
	case 2:
		p := w.somePoint()
		w.logf("sleep at %d", p.Applied)
		if w.try(w.log.Sleep(p), nil, &p, false) && p.Applied != m.point.Applied {
			m.point = p
		}
		m.point.ConfState, m.point.State = w.pointNow()
	case 3:
		w.reopen()
	case 4:
		for _, f := range w.zeroing {
			f()
		}
		w.zeroing = nil
		w.try(nil, nil, nil, false)
	default:
		out := w.someWrite()
		w.logf("write %s", describe(out))
		if w.try(w.log.Write(out), &out, nil, false) {
			m.write(out)
		}
	}
	if w.log != nil && w.rng.IntN(4) == 0 {
		w.log.Release(m.point.Applied)
	}
}

// install replaces the log by a snapshot of another one that has what this one
// has committed, and more.
func (w *world) install() {
	leader := newWorld(w.t, w.rng.Uint64())
	leader.now, leader.terms = w.now, w.terms
	for i := uint64(2); i <= w.model.known; {
		var out raftlog.Write
		for range 1 + w.rng.IntN(3) {
			if i <= w.model.known {
				out.Entries = append(out.Entries, w.model.at(i).entry)
				out.Payloads = append(out.Payloads, w.model.at(i).payload)
				i++
			}
		}
		out.Commit = i - 1
		w.check(leader.log.Write(out))
		leader.model.write(out)
	}
	for range 1 + w.rng.IntN(10) {
		out := leader.someWrite()
		w.check(leader.log.Write(out))
		leader.model.write(out)
	}
	w.now, w.terms = leader.now, leader.terms
	p := leader.somePoint()
	if p.Applied <= w.model.known {
		return
	}
	w.check(leader.log.WritePoint(p))
	leader.model.point = p
	if w.rng.IntN(2) == 0 {
		_, _, err := leader.log.DropBefore(w.rng.Int64N(leader.model.next() + 1))
		w.check(err)
		leader.dropped()
	}
	snapshot, err := leader.log.Snapshot()
	w.check(err)
	after := leader.model.clone()
	after.entries = after.entries[:p.Applied]
	after.first, after.commit, after.known, after.hard = p.Applied+1, p.Applied, p.Applied, w.model.hard
	if after.start > after.next() {
		return
	}
	w.logf("install a snapshot at %d, offsets %d to %d", p.Applied, after.start, after.next())
	if err := w.receive(leader.log, snapshot); w.tryInstall(err, after) {
		w.model = after
	}
}

// receive stages and installs a snapshot.
func (w *world) receive(leader *raftlog.Log, snapshot *raftpb.Snapshot) error {
	stage, err := raftlog.NewStage(faultfs.New(w.disk, w.hook), dir, snapshot)
	if err != nil {
		return err
	}
	for _, s := range stage.Manifest().GetSegments() {
		b := make([]byte, s.GetSize())
		if err := leader.ReadSegment(s, 0, b); err != nil {
			return err
		}
		half := len(b) / 2
		if err := errors.Join(stage.WriteAt(s.GetBase(), 0, b[:half]), stage.WriteAt(s.GetBase(), int64(half), b[half:])); err != nil {
			return err
		}
	}
	if err := stage.Finish(); err != nil {
		return err
	}
	return w.log.Install(stage, nil)
}

// tryInstall is try for an install, which is done wholly or not at all.
func (w *world) tryInstall(err error, after *model) bool {
	if !w.dead {
		w.check(err)
		return true
	}
	w.installing = after
	w.restart(nil, nil, false)
	w.installing = nil
	return false
}

// pointNow is the configuration that the log has, and the state that nobody but
// Open asks for.
func (w *world) pointNow() (*raftpb.ConfState, []byte) {
	_, cs, err := w.log.InitialState()
	w.check(err)
	return cs, w.model.point.State
}

func (w *world) shortenAllowed(needed uint64) error {
	first, _ := w.log.FirstIndex()
	if w.log.StartOffset() != w.model.start || first <= w.model.first || first > min(needed, w.model.point.Applied+1) {
		return fmt.Errorf("shortened to index %d of %d, needed %d, applied %d", first, w.model.first, needed, w.model.point.Applied)
	}
	return nil
}

func (w *world) dropsAllowed(offset int64) error {
	first, _ := w.log.FirstIndex()
	if start := w.log.StartOffset(); start > offset && start > w.model.start || first > w.model.point.Applied+1 {
		return fmt.Errorf("dropped up to offset %d and index %d, allowed %d and %d", start, first, offset, w.model.point.Applied+1)
	}
	return nil
}

func describe(out raftlog.Write) string {
	s := ""
	for i, e := range out.Entries {
		kind := "journal"
		if out.Payloads[i] != nil {
			kind = fmt.Sprintf("batch(%d)", len(out.Payloads[i]))
		}
		s += fmt.Sprintf(" %d/%d %s", e.GetIndex(), e.GetTerm(), kind)
	}
	return fmt.Sprintf("hard %v commit %d%s", out.HardState, out.Commit, s)
}

// reopen stops cleanly and starts again.
func (w *world) reopen() {
	p := w.somePoint()
	w.logf("clean stop at %d", p.Applied)
	if !w.try(w.log.Close(&p), nil, &p, false) {
		return
	}
	log, err := raftlog.Open(w.options())
	if w.dead {
		w.restart(nil, &p, false)
		return
	}
	w.check(err)
	w.log = log
	r := log.Recovered()
	if !r.Clean || r.TornBytes != 0 {
		w.check(fmt.Errorf("not clean: %+v", r))
	}
	w.model.point.Applied = r.Applied
	w.model.point.ConfState = r.ConfState
}

// try takes note of an operation's end: true if it was done. If the process died
// in it, or it failed, another one starts.
func (w *world) try(err error, out *raftlog.Write, p *raftlog.Point, dropping bool) bool {
	if w.dead {
		w.restart(out, p, dropping)
		return false
	}
	w.check(err)
	return true
}

// restart opens what the dead process left, perhaps dying in that too.
func (w *world) restart(out *raftlog.Write, p *raftlog.Point, dropping bool) {
	kill := w.rng.IntN(2) == 0
	commit := uint64(0)
	for {
		if kill {
			w.logf("kill")
			w.disk = w.disk.Kill()
			if !w.tornNote {
				commit = w.model.commit
			}
		} else {
			w.logf("power cut")
			w.disk = w.disk.Crash(w.rng)
			commit = 0
		}
		w.files = raftlog.NewFileCache(1 + w.rng.IntN(4))
		w.dead, w.dieAt, w.ops, w.zeroing = false, 0, 0, nil
		if w.rng.IntN(3) == 0 {
			w.dieAt = 1 + w.rng.IntN(30)
		}
		log, err := raftlog.Open(w.options())
		if w.dead {
			kill = kill && w.rng.IntN(2) == 0
			continue
		}
		w.dieAt = 0
		if errors.Is(err, raftlog.ErrDamaged) && w.replicated && !kill && out != nil && len(out.Entries) > 1 {
			// What was not acknowledged may look like damage after a power cut.
			w.log = nil
			return
		}
		w.check(err)
		w.log = log
		points := append([]raftlog.Point{w.model.point}, w.weak...)
		if p != nil {
			points = append(points, *p)
			w.weak = append(w.weak, w.model.point)
		}
		if m := w.installing; m != nil && log.Recovered().Applied == m.point.Applied {
			w.model, w.weak, points, commit = m, nil, []raftlog.Point{m.point}, 0
		}
		w.check(w.model.adopt(log, out, points, dropping, commit))
		// What was recovered is durable: it must be there after a power cut.
		if w.rng.IntN(3) == 0 {
			w.disk = w.disk.Crash(nil)
			w.files = raftlog.NewFileCache(1 + w.rng.IntN(4))
			w.log, err = raftlog.Open(w.options())
			w.check(err)
			w.check(w.model.adopt(w.log, nil, points, false, 0))
		}
		return
	}
}

func runHistory(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	defer func() {
		if t.Failed() {
			t.Logf("history %d: go test -run %s -raftlog.history %d", seed, t.Name(), seed)
		}
	}()
	for range 3 + w.rng.IntN(60) {
		w.dieAt, w.ops, w.tornNote = 0, 0, false
		if w.rng.IntN(6) == 0 {
			w.dieAt = 1 + w.rng.IntN(25)
		}
		w.step()
		if w.log == nil {
			return
		}
		w.dieAt = 0
		if w.rng.IntN(6) == 0 {
			w.check(w.model.compare(w.log))
		}
	}
	w.check(w.model.compare(w.log))
}

// Whatever a process does and wherever it dies, by a kill or with the power, the
// next one finds all that was acknowledged, where it was, and nothing that never
// was written.
//
// Leaving out any of these was tried, and found by this test: the barrier before
// batches, and the sync of batches before later entries of the journal; either
// record of a cut, lowering the note in it, not believing an older one, cutting
// the index and syncing the folder in it; the cut of a torn tail; the sync of what
// recovery finds beyond the note, and of the journal then; the sync of the folder
// at a roll, a compaction of the journal and an install; the sync of a segment
// that is sealed; the point before a drop.
func TestHistoriesWithCrashes(t *testing.T) {
	if *history != 0 {
		runHistory(t, *history)
		return
	}
	for seed := uint64(1); seed <= *histories; seed++ {
		runHistory(t, seed)
		if t.Failed() {
			return
		}
	}
}
