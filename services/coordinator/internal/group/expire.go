package group

import (
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// evictAtOnce is how many records one look may make before it leaves the other
// groups to the next.
const evictAtOnce = 500

// Due returns the records with which overdue members and idle groups go.
func (s *State) Due(now time.Time) []shard.Record {
	records := s.evict(now)
	return append(records, s.idle(now, evictAtOnce-len(records))...)
}

// evict returns the records with which overdue members go.
func (s *State) evict(now time.Time) []shard.Record {
	if late := now.Sub(s.check); late > s.cfg.ExpireInterval {
		// Nobody looked for a while: the shard was held up, or the process was.
		// Members that could not be heard are not late for it.
		s.forgive(late)
	}
	var records []shard.Record
	for name, g := range s.groups {
		overdue := s.overdue(g, now)
		if len(overdue) == 0 {
			continue
		}
		if len(records) >= evictAtOnce {
			// Asked again at once.
			s.check = now
			return records
		}
		if s.cfg.Evicted != nil {
			s.cfg.Evicted(name, len(overdue))
		}
		evicted, _ := s.rebalance(name, g.owner, overdue, nil)
		records = append(records, evicted...)
	}
	s.check = now.Add(s.cfg.ExpireInterval)
	return records
}

// overdue returns the members that were not heard of in time. One that was not
// heard of since the load has its time from now on.
func (s *State) overdue(g *group, now time.Time) map[string]*member {
	var overdue map[string]*member
	for id := range g.members {
		heard, ok := g.heard[id]
		if !ok {
			g.heard[id] = now
			continue
		}
		if now.Sub(heard) < s.cfg.MemberTimeout {
			continue
		}
		if overdue == nil {
			overdue = make(map[string]*member)
		}
		overdue[id] = nil
	}
	return overdue
}

func (s *State) forgive(late time.Duration) {
	for _, g := range s.groups {
		for id, heard := range g.heard {
			g.heard[id] = heard.Add(late)
		}
	}
}

// NextDue returns when overdue members or idle groups are looked for next.
func (s *State) NextDue() time.Time {
	var next time.Time
	if s.members > 0 {
		next = s.check
	}
	if s.expires() && len(s.groups) > 0 && (next.IsZero() || s.look.Before(next)) {
		next = s.look
	}
	return next
}
