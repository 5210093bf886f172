package segment

import (
	"math"
	"sync"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

const (
	aheadFirst = 64 << 10
	aheadMost  = 8 << 20
	// One write of zeros. An append that is about to write where zeros are being
	// written waits for no more than this; so does one that the file system lets
	// wait for it, as ext4 does.
	aheadWrite = 64 << 10
	// Appends and zeros share the file's dirty pages, so a sync of either waits
	// for what the other wrote: zeros are synced in small portions.
	aheadSync = 1 << 20
	// A segment that gets fewer appends than this is not worth it: writing once
	// to each of many partitions must not write 64 KiB for each.
	aheadFrom = 8
	// Syncs of this many bytes or more on average pay for their metadata
	// themselves, and zeros would be as many bytes again: one of 128 KiB takes 267 µs
	// on a file that grows and 297 with zeros, one of 8 KiB 367 and 190. The average
	// is over some aheadOver syncs: one that a single batch had for itself tells
	// little.
	aheadBelow = 96 << 10
	aheadOver  = 8
)

var zeros [aheadWrite]byte

// Ahead says how zeros are written ahead of the batches. With them in place an
// append changes no metadata, and its sync writes data alone; space that is only
// allocated would not do, since the first write to it changes its extent.
type Ahead struct {
	// Schedule runs a function soon, elsewhere.
	Schedule func(func())
	// Open opens the log file once more. An error of a sync is told once for
	// each open file, and the writer must not miss its own.
	Open func() (vfs.File, error)
	// Limit is the size that the segment will hardly exceed.
	Limit int64
}

// ahead is the region of zeros after the batches. It grows in the background and
// nobody waits for it.
type ahead struct {
	Ahead
	// Owner only: how many syncs there were, and how many bytes one has.
	syncs, average int64

	mu struct {
		sync.Mutex
		// A write of zeros begins at or after claimed, batches end before it. claimed
		// rises first; then the batches wait for a write of zeros that began before.
		claimed int64
		// zeroed is where the region ends. It may lag behind claimed.
		zeroed int64
		// writing is where zeros are being written; noWrite when none are.
		writing int64
		step    int64
		running bool
		stopped bool
	}
	// written tells that writing has changed.
	written sync.Cond
}

const noWrite = math.MaxInt64

func newAhead(a Ahead, end int64) *ahead {
	h := &ahead{Ahead: a}
	h.written.L = &h.mu
	h.mu.claimed, h.mu.zeroed, h.mu.step, h.mu.writing = end, end, aheadFirst, noWrite
	return h
}

// claim takes the bytes before end for batches.
func (a *ahead) claim(end int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Before the wait: else the next write of zeros could begin below end, and the one
	// after, for as long as one fits.
	a.mu.claimed = end
	for a.mu.writing < end {
		a.written.Wait()
	}
}

// more starts the background if little of the region is left. synced is how many
// bytes the last sync was for.
func (a *ahead) more(synced int64) {
	a.syncs++
	a.average += (synced - a.average) / min(a.syncs, aheadOver)
	if a.syncs < aheadFrom || a.average >= aheadBelow || !a.start() {
		return
	}
	a.Schedule(a.run)
}

func (a *ahead) start() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.running || a.mu.stopped || a.mu.zeroed-a.mu.claimed >= a.mu.step/2 || a.mu.claimed >= a.Limit {
		return false
	}
	a.mu.running = true
	return true
}

// stop makes sure that no zeros are written any more.
func (a *ahead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.stopped = true
	for a.mu.writing != noWrite {
		a.written.Wait()
	}
}

// run writes one step of zeros. It may fail: the next appends then extend the
// file themselves.
func (a *ahead) run() {
	ok := a.zeroStep()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.running = false
	a.mu.stopped = a.mu.stopped || !ok
	a.mu.step = min(2*a.mu.step, aheadMost)
}

func (a *ahead) zeroStep() (ok bool) {
	f, err := a.Open()
	if err != nil {
		return false
	}
	defer f.Close()
	for {
		more, err := a.zeroPortion(f)
		if err == nil {
			err = f.Datasync()
		}
		if err != nil || !more {
			return err == nil
		}
	}
}

// zeroPortion writes what is synced at once.
func (a *ahead) zeroPortion(f vfs.File) (more bool, err error) {
	for range aheadSync / aheadWrite {
		if more, err = a.zeroOnce(f); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// zeroOnce makes one small write. Where it writes is said before and kept free
// until it is done, which is what keeps zeros off the batches: were the bound looked
// at alone, an append could come between and be overwritten. The lock is not held
// meanwhile: whoever takes it again and again keeps others from it.
func (a *ahead) zeroOnce(f vfs.File) (more bool, err error) {
	from, n := a.beginWrite()
	if n == 0 {
		return false, nil
	}
	until := from
	// Deferred, so that a panic leaves no append waiting for ever.
	defer func() { a.endWrite(until) }()
	if _, err := f.WriteAt(zeros[:n], from); err != nil {
		return false, err
	}
	until += n
	return true, nil
}

func (a *ahead) beginWrite() (from, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from = max(a.mu.claimed, a.mu.zeroed)
	until := min(a.mu.claimed+a.mu.step, a.Limit)
	if a.mu.stopped || from >= until {
		return 0, 0
	}
	a.mu.writing = from
	return from, min(aheadWrite, until-from)
}

// endWrite notes that there are zeros until somewhere.
func (a *ahead) endWrite(until int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.writing, a.mu.zeroed = noWrite, until
	a.written.Broadcast()
}
