package replica

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// point is the applied state as the log keeps it.
func (r *Replica) point() (*raftlog.Point, error) {
	state, err := r.save()
	if err != nil {
		return nil, fmt.Errorf("encode state of %s: %w", r.options.Key, err)
	}
	return &raftlog.Point{Applied: r.applied, ConfState: r.conf, State: state}, nil
}

// pointAfterRoll writes a point once for each roll of the segment.
func (r *Replica) pointAfterRoll() error {
	if r.log.ActiveBase() == r.pointed {
		return nil
	}
	return r.writePoint()
}

func (r *Replica) writePoint() error {
	point, err := r.point()
	if err == nil {
		err = r.log.WritePoint(*point)
	}
	if err != nil {
		err = fmt.Errorf("point of %s: %w", r.options.Key, err)
		r.fail(err)
		return err
	}
	r.pointed = r.log.ActiveBase()
	return nil
}

// shorten has the log forget entries that are no batch when there are too many.
// It is cheap when there are not.
func (r *Replica) shorten() error {
	held := r.log.JournalEntries()
	if held <= 2*r.options.KeepEntries {
		return nil
	}
	point, err := r.point()
	if err == nil {
		var shortened bool
		if shortened, err = r.log.Shorten(*point, r.options.KeepEntries, r.needed(held)); err == nil && shortened {
			r.pointed = r.log.ActiveBase()
		}
	}
	if err != nil {
		err = fmt.Errorf("shorten %s: %w", r.options.Key, err)
		r.fail(err)
	}
	return err
}

// needed is the lowest index that another replica may ask this one for, as far as
// it knows; with so many entries held nobody is waited for any more.
func (r *Replica) needed(held int) uint64 {
	lowest := uint64(math.MaxUint64)
	if r.role == raft.StateLeader && held <= 2*lagFactor*r.options.KeepEntries {
		r.raw.WithProgress(func(_ uint64, _ raft.ProgressType, progress tracker.Progress) {
			lowest = min(lowest, progress.Match+1)
		})
	}
	return lowest
}

// Trim drops the sealed segments that lie wholly below the start offset. It
// returns how many, and their bytes.
func (r *Replica) Trim() (segments int, bytes int64, err error) { return r.TrimLocal(0) }

// TrimLocal is Trim that drops the segments below an offset, too, as far as they
// are in cold storage. The point that it writes first has what makes them so:
// after a crash the replica knows where its records are, or still has them.
func (r *Replica) TrimLocal(offset int64) (segments int, bytes int64, err error) {
	if r.err != nil {
		return 0, 0, r.err
	}
	if err := r.writePoint(); err != nil {
		return 0, 0, err
	}
	start := r.state.StartOffset
	segments, bytes, err = r.log.DropBefore(max(start, min(offset, r.state.Cold.End(start))))
	if err != nil {
		err = fmt.Errorf("trim %s: %w", r.options.Key, err)
		r.fail(err)
	}
	return segments, bytes, err
}

// Swap puts segments that compaction has written in the place of old ones. That
// they are not what they were any more is raftlog.ErrReplaced and no failure of
// the replica.
func (r *Replica) Swap(w *raftlog.Rewriting) error {
	if r.err != nil {
		return r.err
	}
	point, err := r.point()
	if err == nil {
		err = r.log.Swap(w, *point)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("swap of %s: %w", r.options.Key, err)
	if !errors.Is(err, raftlog.ErrReplaced) && !errors.Is(err, raftlog.ErrInvalid) {
		r.fail(err)
	}
	return err
}

// Bury deletes the files of trimmed segments whose grace is over, and tells when
// to call it next; the zero time is never.
func (r *Replica) Bury() (next time.Time, err error) {
	if r.err != nil {
		return time.Time{}, r.err
	}
	next, err = r.log.Bury()
	if err != nil {
		err = fmt.Errorf("delete trimmed segments of %s: %w", r.options.Key, err)
		r.fail(err)
	}
	return next, err
}

// Idle tells whether nothing is under way, so that the replica may sleep. With
// other replicas, a leader sleeps only when all of them have everything.
func (r *Replica) Idle() bool {
	return r.err == nil && r.waiting.empty() && !r.raw.HasReady() && isSole(r.conf, r.options.ID)
}

// Sleep gives back what an idle replica does not need: file handles and the
// zeros written ahead. The next Propose or Read wakes the log by itself.
func (r *Replica) Sleep() error {
	if r.err != nil {
		return r.err
	}
	point, err := r.point()
	if err == nil {
		err = r.log.Sleep(*point)
	}
	if err != nil {
		err = fmt.Errorf("sleep of %s: %w", r.options.Key, err)
		r.fail(err)
	}
	return err
}
