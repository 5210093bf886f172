package group

import (
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// idleInterval is how often groups with nothing left to keep are looked for, and so
// how much later than due one goes: it takes days until it is.
const idleInterval = time.Hour

// ExpireUnless has groups go that have had neither members nor anything that holds
// tells of for Config.IdleTimeout: all that they still are is an owner and a
// generation. Without it, and with a timeout of 0, they stay until they are deleted.
//
// Committed offsets never expire, whoever has them: a group that has any stays.
func (s *State) ExpireUnless(holds func(group string) bool) { s.holds = holds }

func (s *State) expires() bool { return s.holds != nil && s.cfg.IdleTimeout > 0 }

// idle returns at most limit records, or a few more: of groups that have nothing left
// since when that is so, of those that have something again that it is not so any more,
// and with the ones whose time is over they go, as if they were deleted. That it is
// written since when makes it count over owners of the shard; a join says by itself
// that a group is not idle.
func (s *State) idle(now time.Time, limit int) []shard.Record {
	if !s.expires() || now.Before(s.look) {
		return nil
	}
	var records []shard.Record
	floor := s.floor
	for name, g := range s.groups {
		if len(records) >= limit {
			// Asked again at once.
			s.look = now
			return s.raised(records, floor)
		}
		if len(g.members) > 0 {
			// Not idle, and its last rebalance has written so. Another one may be
			// under way: what is said of the group here would take that back.
			continue
		}
		empty := len(g.shares) == 0 && !s.holds(name)
		switch {
		case empty && g.idleSinceMs == 0:
			records = append(records, idleRecord(name, g, now.UnixMilli()))
		case !empty && g.idleSinceMs != 0:
			records = append(records, idleRecord(name, g, 0))
		case empty && now.Sub(time.UnixMilli(g.idleSinceMs)) >= s.cfg.IdleTimeout:
			if s.cfg.Expired != nil {
				s.cfg.Expired(name)
			}
			records = append(records, groupGone(name))
			floor = max(floor, g.generation)
		}
	}
	s.look = now.Add(idleInterval)
	return s.raised(records, floor)
}

// raised adds the record with which the generations of new groups begin above those
// of the ones that go.
func (s *State) raised(records []shard.Record, floor int64) []shard.Record {
	if floor > s.floor {
		records = append(records, floorRecord(floor))
	}
	return records
}
