package producers

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

const (
	// MaxID limits a producer id, in bytes.
	MaxID = 1024
	// home is what is hashed to the shard of all ids. It says in which log they
	// are: it must not change.
	home = "producer-ids"
)

// Producers resolves, lists and forgets producer ids.
type Producers struct {
	shards *shard.Part[*State]
}

// New returns the producers in some shards.
func New(shards *shard.Part[*State]) *Producers { return &Producers{shards: shards} }

// Resolve returns the number of an id, which becomes the owner's at its first use;
// that is on disk when it returns. ErrNotOwner, ErrTooMany.
func (p *Producers) Resolve(ctx context.Context, owner, id string) (number int64, err error) {
	number, found, err := p.look(ctx, owner, id)
	if found || err != nil {
		return number, err
	}
	err = p.write(ctx, func(s *State) (records []shard.Record, err error) {
		number, records, err = s.Resolve(time.Now(), owner, id)
		return records, err
	})
	return number, err
}

// look spares most requests a write.
func (p *Producers) look(ctx context.Context, owner, id string) (number int64, found bool, err error) {
	switch {
	case owner == "":
		return 0, false, ErrNoOwner
	case id == "" || len(id) > MaxID || !utf8.ValidString(id):
		return 0, false, ErrInvalidID.WithMessage("a producer id is UTF-8 of 1 to %d bytes", MaxID)
	}
	err = p.read(ctx, func(s *State) (err error) {
		number, found, err = s.Look(time.Now(), owner, id)
		return err
	})
	return number, found, err
}

// List returns all ids in order.
func (p *Producers) List(ctx context.Context) (list []Known, err error) {
	err = p.read(ctx, func(s *State) error {
		list = s.List(time.Now())
		return nil
	})
	return list, err
}

// Forget forgets an id; owner is empty when it is anybody's. It reports whether
// there was one.
func (p *Producers) Forget(ctx context.Context, owner, id string) (found bool, err error) {
	err = p.write(ctx, func(s *State) (records []shard.Record, err error) {
		records, found = s.Forget(time.Now(), owner, id)
		return records, nil
	})
	return found, err
}

func (p *Producers) read(ctx context.Context, op func(*State) error) error {
	number, ok := p.shards.Of(home)
	if !ok {
		return shard.ErrNotCoordinator
	}
	return p.shards.Read(ctx, number, op)
}

func (p *Producers) write(ctx context.Context, op func(*State) ([]shard.Record, error)) error {
	number, ok := p.shards.Of(home)
	if !ok {
		return shard.ErrNotCoordinator
	}
	return p.shards.Write(ctx, number, op)
}
