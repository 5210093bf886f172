package replica

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// flight is a write of which Raft is told once it is durable, and all before it.
type flight struct {
	sync raftlog.Syncing
	// last is the index of its last entry, 0 for none.
	last  uint64
	began time.Time
	// responses are messages that vouch for it: to Raft itself, and to other
	// replicas (raft's thesis, 10.2.1).
	responses []*raftpb.Message
}

// Syncing returns the sync that RunAhead has left to do, for another goroutine, and
// false when all that is written is durable. It includes those of before.
func (r *Replica) Syncing() (raftlog.Syncing, bool) {
	if len(r.flights) == 0 {
		return raftlog.Syncing{}, false
	}
	return r.flights[len(r.flights)-1].sync, true
}

// land tells Raft of the writes that are durable by now; with wait it makes all of
// them durable first.
func (r *Replica) land(wait bool) error {
	landed := 0
	for ; landed < len(r.flights); landed++ {
		sync := r.flights[landed].sync
		ended, err := sync.Ended()
		if !ended && wait {
			ended, err = true, sync.Run()
		}
		if err != nil {
			return r.log.Synced(err)
		}
		if !ended {
			break
		}
	}
	if landed == 0 {
		return nil
	}
	if err := r.log.Synced(nil); err != nil {
		return err
	}
	ended := r.options.Now()
	// Raft takes in one message at a time, and none of them makes it write.
	for _, f := range r.flights[:landed] {
		r.written(f.last, f.began, ended)
		if err := r.respond(f.responses); err != nil {
			return err
		}
	}
	clear(r.flights[:landed])
	if r.flights = r.flights[landed:]; len(r.flights) == 0 {
		r.flights = nil
	}
	return nil
}

// respond delivers messages that were held back until a write was durable.
func (r *Replica) respond(messages []*raftpb.Message) error {
	for _, m := range messages {
		if m.GetTo() != r.options.ID {
			if err := r.collect(m); err != nil {
				return err
			}
			continue
		}
		// One of an earlier term, or to a replica that is a member no more, is
		// refused and means nothing.
		_ = r.raw.Step(m)
	}
	return nil
}
