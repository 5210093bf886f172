package catalog

import (
	"context"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

// Newest is the version number of a subject's newest version.
const Newest = -1

// What callers can act on.
var (
	ErrUnknownSubject = errs.New(errs.NotFound, "SUBJECT_NOT_FOUND", "the subject does not exist")
	ErrUnknownVersion = errs.New(errs.NotFound, "VERSION_NOT_FOUND", "the subject has no such version")
	ErrUnknownSchema  = errs.New(errs.NotFound, "SCHEMA_NOT_FOUND", "the schema does not exist")
)

// ByID returns a schema by its id, one that is hidden too. ErrUnknownSchema.
func (c *Catalog) ByID(ctx context.Context, id int32) (Version, error) {
	// What an id means never changes, so the picture need not be fresh.
	if v, ok := c.picture.Load().byID[id]; ok {
		return v, nil
	}
	p, err := c.fresh(ctx)
	if err != nil {
		return Version{}, err
	}
	if v, ok := p.byID[id]; ok {
		return v, nil
	}
	return Version{}, ErrUnknownSchema.WithMessage("there is no schema with id %d", id)
}

// Serialized returns the text of a version; of a Protobuf schema the base64 of a
// FileDescriptorProto, however it was registered.
func (c *Catalog) Serialized(v Version) (string, error) {
	if schema.Type(v.GetType()) != schema.Protobuf {
		return v.GetSchema(), nil
	}
	parsed, err := c.picture.Load().parseVersion(v)
	if err != nil {
		return "", err
	}
	return parsed.Serialized()
}

// Find returns a version of a subject, or its Newest. ErrUnknownSubject,
// ErrUnknownVersion.
func (c *Catalog) Find(ctx context.Context, subject string, number int32, deleted bool) (Version, error) {
	p, err := c.fresh(ctx)
	if err != nil {
		return Version{}, err
	}
	return p.subject(subject).find(number, deleted)
}

// List returns the versions of a subject in order, or of all subjects when it is
// empty. ErrUnknownSubject when a subject that was named has none.
func (c *Catalog) List(ctx context.Context, subject string, deleted bool) ([]Version, error) {
	p, err := c.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if subject != "" {
		if _, err := p.subject(subject).find(Newest, deleted); err != nil {
			return nil, err
		}
		return p.subject(subject).list(deleted), nil
	}
	var list []Version
	for _, name := range slices.Sorted(maps.Keys(p.subjects)) {
		list = append(list, p.subjects[name].list(deleted)...)
	}
	return list, nil
}

// Lookup returns the version of a subject that has a schema. ErrUnknownSubject,
// ErrUnknownSchema, schema.ErrInvalid.
func (c *Catalog) Lookup(ctx context.Context, d Draft, deleted bool) (Version, error) {
	p, err := c.fresh(ctx)
	if err != nil {
		return Version{}, err
	}
	s := p.subject(d.Subject)
	if _, err := s.find(Newest, deleted); err != nil {
		return Version{}, err
	}
	parsed, err := p.parse(d)
	if err != nil {
		return Version{}, err
	}
	if v, ok := s.same(d, parsed, false); ok {
		return v, nil
	}
	if v, ok := s.same(d, parsed, true); ok && deleted {
		return v, nil
	}
	return Version{}, ErrUnknownSchema.WithMessage("subject %q does not have the schema", d.Subject)
}

// Check judges a draft as a new version of its subject. With number 0 it is
// judged by the subject's level; otherwise against that version alone.
// ErrUnknownSubject and ErrUnknownVersion only with a number.
func (c *Catalog) Check(ctx context.Context, d Draft, number int32) (schema.Verdict, error) {
	p, err := c.fresh(ctx)
	if err != nil {
		return schema.Verdict{}, err
	}
	parsed, err := p.parse(d)
	if err != nil {
		return schema.Verdict{}, err
	}
	before := p.subject(d.Subject).list(false)
	if number != 0 {
		v, err := p.subject(d.Subject).find(number, false)
		if err != nil {
			return schema.Verdict{}, err
		}
		before = []Version{v}
	}
	return p.judge(d.Subject, parsed, before)
}

// judge judges a new version of a subject against others.
func (p *picture) judge(subject string, next *schema.Schema, before []Version) (schema.Verdict, error) {
	level := p.level(subject)
	if level == schema.LevelNone || len(before) == 0 {
		return schema.Verdict{}, nil
	}
	if !level.Transitive() {
		before = before[len(before)-1:]
	}
	parsed := make([]*schema.Schema, len(before))
	for i, v := range before {
		var err error
		if parsed[i], err = p.parseVersion(v); err != nil {
			return schema.Verdict{}, err
		}
	}
	return level.Check(next, parsed), nil
}
