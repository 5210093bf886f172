package producers

import (
	"cmp"
	"slices"
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

const (
	// MaxOwned is how many ids a key may own.
	MaxOwned = 10_000
	// Idle is how long after its last use an id is remembered. Partitions forget
	// its producer no later.
	Idle = 7 * 24 * time.Hour
	// refresh is how far behind the written time of the last use may be. After a
	// change of owners it is the written one that counts, so an id is remembered
	// for that much longer.
	refresh = time.Hour
	// block is how many numbers are taken at once. Those of a block that are not
	// given out when the shard's owner changes never are.
	block = 1000
	// sweepInterval is how often idle ids are looked for, sweepAtOnce how many one
	// look removes.
	sweepInterval = time.Hour
	sweepAtOnce   = 500
)

// State is the producer ids of a shard: all there are, or none.
type State struct {
	byID  map[string]*producer
	owned map[string]map[string]*producer // by owner, then by id
	// end is above all numbers that may have been given out.
	end int64
	// next up to limit are numbers that this owner of the shard may give out.
	// limit <= end, since the record that raises end comes first.
	next, limit int64
	// sweep is when idle ids are looked for next.
	sweep time.Time
}

// producer is what an id stands for. Its fields but used follow from records.
type producer struct {
	id, owner string
	number    int64
	// written is the time of the last use as the record has it; used is later than
	// that, or zero after a load.
	written, used time.Time
}

func (p *producer) lastUsed() time.Time {
	if p.used.After(p.written) {
		return p.used
	}
	return p.written
}

func (p *producer) idle(now time.Time) bool { return now.Sub(p.lastUsed()) >= Idle+refresh }

var _ shard.Timed = (*State)(nil)

// NewState returns the state of an empty log, at a time.
func NewState(now time.Time) *State {
	return &State{
		byID: make(map[string]*producer), owned: make(map[string]map[string]*producer),
		sweep: now.Add(sweepInterval),
	}
}

// Apply sets or removes an id, or raises the end of the numbers.
func (s *State) Apply(r shard.Record) (undo func()) {
	if r.Key.GetProducerNumbers() != nil {
		before := s.end
		s.end = max(s.end, r.Value.GetProducerNumbers().GetEnd())
		return func() {
			// None of the block was told to anybody.
			s.end, s.next, s.limit = before, 0, 0
		}
	}
	key := r.Key.GetProducerId()
	if key == nil {
		return func() {} // of another part of the shard
	}
	id := key.GetProducerId()
	before := s.byID[id]
	if value := r.Value.GetProducerId(); value != nil {
		now := &producer{id: id, owner: value.GetOwner(), number: value.GetNumber(), written: time.UnixMilli(value.GetLastUsedMs())}
		if before != nil && before.number == now.number {
			now.used = before.used
		}
		s.set(id, now)
	} else {
		s.set(id, nil)
	}
	return func() { s.set(id, before) }
}

// set keeps a producer, or forgets the id when it is nil.
func (s *State) set(id string, p *producer) {
	if before := s.byID[id]; before != nil {
		delete(s.byID, id)
		delete(s.owned[before.owner], id)
		if len(s.owned[before.owner]) == 0 {
			delete(s.owned, before.owner)
		}
	}
	if p == nil {
		return
	}
	s.byID[id] = p
	if s.owned[p.owner] == nil {
		s.owned[p.owner] = make(map[string]*producer)
	}
	s.owned[p.owner][id] = p
}

// Look returns the number of an id that its owner uses again. ok is false when a
// Resolve has to write something.
func (s *State) Look(now time.Time, owner, id string) (number int64, ok bool, err error) {
	p := s.byID[id]
	switch {
	case p == nil || p.idle(now):
		return 0, false, nil
	case p.owner != owner:
		return 0, false, ErrNotOwner
	}
	p.used = now
	return p.number, now.Sub(p.written) < refresh, nil
}

// Resolve returns the number of an id, with what makes one at its first use.
func (s *State) Resolve(now time.Time, owner, id string) (number int64, records []shard.Record, err error) {
	number, ok, err := s.Look(now, owner, id)
	if ok || err != nil {
		return number, nil, err
	}
	p := s.byID[id]
	if p != nil && !p.idle(now) {
		return p.number, []shard.Record{record(id, p.owner, p.number, now)}, nil
	}
	if len(s.owned[owner]) >= MaxOwned {
		for _, gone := range s.idleOf(s.owned[owner], now, sweepAtOnce) {
			records = append(records, removal(gone))
		}
		if len(records) == 0 {
			return 0, nil, ErrTooMany.WithMessage("the key owns %d producer ids, which is as many as it may", len(s.owned[owner]))
		}
	}
	if s.next >= s.limit {
		if s.end+block > recordbatch.MaxWideNumber {
			return 0, nil, ErrNumbersExhausted
		}
		s.next, s.limit = s.end, s.end+block
		records = append(records, shard.Record{
			Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_ProducerNumbers{ProducerNumbers: &persistv1.ProducerNumbersKey{}}},
			Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_ProducerNumbers{
				ProducerNumbers: &persistv1.ProducerNumbers{End: s.limit},
			}},
		})
	}
	number = s.next
	s.next++
	return number, append(records, record(id, owner, number, now)), nil
}

// Forget returns what removes an id; owner is empty when it is anybody's.
func (s *State) Forget(now time.Time, owner, id string) (records []shard.Record, found bool) {
	p := s.byID[id]
	if p == nil || owner != "" && owner != p.owner {
		return nil, false
	}
	return []shard.Record{removal(id)}, !p.idle(now)
}

// Due returns the records with which idle ids go.
func (s *State) Due(now time.Time) []shard.Record {
	var records []shard.Record
	for _, id := range s.idleOf(s.byID, now, sweepAtOnce) {
		records = append(records, removal(id))
	}
	if len(records) < sweepAtOnce {
		s.sweep = now.Add(sweepInterval)
	}
	return records
}

// NextDue returns when idle ids are looked for next.
func (s *State) NextDue() time.Time {
	if len(s.byID) == 0 {
		return time.Time{}
	}
	return s.sweep
}

// idleOf returns some of the ids that nobody has used for too long.
func (s *State) idleOf(producers map[string]*producer, now time.Time, limit int) []string {
	var ids []string
	for id, p := range producers {
		if len(ids) == limit {
			break
		}
		if p.idle(now) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Known is an id as others see it.
type Known struct {
	Owner, ID string
	Number    int64
	LastUsed  time.Time
}

// List returns the ids that are remembered, in order.
func (s *State) List(now time.Time) []Known {
	list := make([]Known, 0, len(s.byID))
	for id, p := range s.byID {
		if !p.idle(now) {
			list = append(list, Known{Owner: p.owner, ID: id, Number: p.number, LastUsed: p.lastUsed()})
		}
	}
	slices.SortFunc(list, func(a, b Known) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func key(id string) *persistv1.ShardKey {
	return &persistv1.ShardKey{Kind: &persistv1.ShardKey_ProducerId{ProducerId: &persistv1.ProducerIdKey{ProducerId: id}}}
}

func record(id, owner string, number int64, now time.Time) shard.Record {
	return shard.Record{Key: key(id), Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_ProducerId{
		ProducerId: &persistv1.ProducerId{Owner: owner, Number: number, LastUsedMs: now.UnixMilli()},
	}}}
}

func removal(id string) shard.Record { return shard.Record{Key: key(id)} }
