package node

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// spaceInterval is how often the disk is asked for its free bytes, at most: what is
// written meanwhile is far less than any sensible reserve.
const spaceInterval = 200 * time.Millisecond

// Disk is what a node knows of the disk below its folder.
type Disk struct {
	// Space asks the file system; nil where nobody can.
	Space func() (vfs.Space, error)
	// MinFreeBytes is kept free: while there is less, clients' appends are refused.
	// What makes room again (retention, deletions, compaction) writes a little
	// first, and so do groups that commit what they have read, and an etcd on the
	// same disk, which does not outlive a write that fails. 0 keeps nothing.
	MinFreeBytes int64
}

// reserve tells whether appends are refused to keep the rest of the disk free.
type reserve struct {
	disk   Disk
	node   string
	logger *slog.Logger
	now    func() time.Time

	// next is when to ask again, in Unix nanoseconds; whoever moves it asks.
	next atomic.Int64
	// short is the refusal while there is too little, else nil.
	short atomic.Pointer[FailureError]
	// unknown tells that the file system was last asked in vain, which is said once.
	unknown atomic.Bool
}

func newReserve(o Options) *reserve {
	return &reserve{disk: o.Disk, node: o.ID, logger: o.Logger, now: o.Now}
}

// refusal is nil while there is enough.
func (r *reserve) refusal() error {
	if r.disk.Space == nil || r.disk.MinFreeBytes <= 0 {
		return nil
	}
	now, next := r.now().UnixNano(), r.next.Load()
	// A clock that was put back does not keep anybody from asking until it is there again.
	if (now >= next || next-now > int64(spaceInterval)) && r.next.CompareAndSwap(next, now+int64(spaceInterval)) {
		r.look()
	}
	if short := r.short.Load(); short != nil {
		return short
	}
	return nil
}

// look asks the file system. What it does not tell refuses nothing.
func (r *reserve) look() {
	space, err := r.disk.Space()
	if err != nil {
		if !r.unknown.Swap(true) && !errors.Is(err, errors.ErrUnsupported) {
			r.logger.Warn("free bytes of the disk are not known, appends go on", "error", err)
		}
		r.short.Store(nil)
		return
	}
	r.unknown.Store(false)
	if space.Free >= r.disk.MinFreeBytes {
		if r.short.Swap(nil) != nil {
			r.logger.Info("the disk has space again, appends go on", "free_bytes", space.Free)
		}
		return
	}
	short := &FailureError{Node: r.node, Err: fmt.Errorf("%w: %d bytes are free, %d are kept",
		ErrNoSpace, space.Free, r.disk.MinFreeBytes)}
	if r.short.Swap(short) == nil {
		r.logger.Error("no space left on the disk, appends are refused",
			"free_bytes", space.Free, "kept_bytes", r.disk.MinFreeBytes)
	}
}

// RefusesAppends is why the node takes no appends of clients just now, nil if it
// does. What it holds is served.
func (n *Node) RefusesAppends() error { return n.reserve.refusal() }

// RefusesAppends is why the partition takes no appends of clients just now although
// it is read, nil if it does.
func (p *Partition) RefusesAppends() error {
	if f := p.failure.Load(); f != nil && (p.open.Load() != nil || p.empty(f)) && f.paused(p.node.options.Now()) {
		return f.err
	}
	if p.topic.internal {
		return nil
	}
	return p.node.RefusesAppends()
}

// Failed counts the node's partitions with which something is wrong.
type Failed struct {
	// Damaged and Failed serve nothing; Failed ones may come back by themselves.
	Damaged, Failed int
	// NoSpace are read, and had no room for an append a short while ago.
	NoSpace int
}

// noSpaceTold is for how long. One that is not appended to again would be told of for
// ever, whatever room there is by then.
const noSpaceTold = 10 * time.Minute

// Failed looks at what is in memory alone.
func (n *Node) Failed() Failed {
	now := n.options.Now()
	var failed Failed
	for _, p := range n.Partitions() {
		switch f := p.failure.Load(); {
		case f == nil || f.ended:
		case p.open.Load() != nil || p.empty(f):
			if now.Before(f.retry.Add(noSpaceTold)) {
				failed.NoSpace++
			}
		case errors.Is(f.err, ErrDamaged):
			failed.Damaged++
		default:
			failed.Failed++
		}
	}
	return failed
}
