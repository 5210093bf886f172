package catalog

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

// The modes of a subject. They are stored: they must not change.
const (
	ReadWrite = "READWRITE"
	ReadOnly  = "READONLY"
)

// What callers can act on.
var (
	ErrLevel = errs.New(errs.InvalidArgument, "INVALID_COMPATIBILITY", "invalid compatibility level")
	ErrMode  = errs.New(errs.InvalidArgument, "INVALID_MODE", "invalid mode")
)

// Settings are the level and the mode of a subject; empty where it has none of
// its own.
type Settings struct {
	Level schema.Level
	Mode  string
}

// Settings returns those of a subject, or those that all fall back to.
func (c *Catalog) Settings(ctx context.Context, subject string) (Settings, error) {
	p, err := c.fresh(ctx)
	if err != nil {
		return Settings{}, err
	}
	if subject == "" {
		return Settings{p.level(""), p.mode("")}, nil
	}
	row := p.subject(subject).row
	return Settings{schema.Level(row.GetCompatibility()), row.GetMode()}, nil
}

// Set changes what is not nil: an empty string falls back. ErrSubject, ErrLevel,
// ErrMode.
func (c *Catalog) Set(ctx context.Context, subject string, level *schema.Level, mode *string) error {
	if subject != "" {
		if err := checkSubject(subject); err != nil {
			return err
		}
	}
	if level != nil && *level != "" && !level.Valid() {
		return ErrLevel.WithMessage("compatibility must be one of %v, got %q", schema.Levels, *level)
	}
	if mode != nil && *mode != "" && *mode != ReadWrite && *mode != ReadOnly {
		return ErrMode.WithMessage("mode must be %s or %s, got %q", ReadWrite, ReadOnly, *mode)
	}
	for {
		p, err := c.fresh(ctx)
		if err != nil {
			return err
		}
		row := proto.CloneOf(p.subject(subject).row)
		if level != nil {
			row.Compatibility = string(*level)
		}
		if mode != nil {
			row.Mode = *mode
		}
		ch, err := p.rewriting(row)
		if err != nil {
			return err
		}
		if done, err := c.commit(ctx, p, ch); err != nil || done {
			return err
		}
	}
}
