package catalog

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

// maxSubject is how many characters a subject may have.
const maxSubject = 255

// maxBytes is how long all texts may be together: every registry has them in
// memory, and a list of all must fit into a message.
const maxBytes = 48 << 20

// maxFaults is how many faults an error tells of.
const maxFaults = 10

// What callers can act on.
var (
	ErrSubject      = errs.New(errs.InvalidArgument, "INVALID_SUBJECT", "the subject is invalid")
	ErrIncompatible = errs.New(errs.FailedPrecondition, "INCOMPATIBLE_SCHEMA", "the schema is incompatible")
	ErrFull         = errs.New(errs.FailedPrecondition, "REGISTRY_FULL", "the registry is full")
	ErrReadOnly     = errs.New(errs.FailedPrecondition, "SUBJECT_READ_ONLY", "the subject is read-only")
)

// A Draft is a schema that may become a version of a subject.
type Draft struct {
	Subject    string
	Type       schema.Type
	Text       string
	References []Reference
}

// checkSubject says what is wrong with the name of a subject.
func checkSubject(name string) error {
	n := utf8.RuneCountInString(name)
	if n == 0 || n > maxSubject || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return ErrSubject.WithMessage("a subject must have 1 to %d characters and none of them a control character, got %d", maxSubject, n)
	}
	return nil
}

// Register adds a version, or finds the schema in the subject. ErrSubject,
// ErrReadOnly, ErrIncompatible, ErrFull, schema.ErrInvalid.
func (c *Catalog) Register(ctx context.Context, d Draft) (Version, error) {
	if err := checkSubject(d.Subject); err != nil {
		return Version{}, err
	}
	for {
		p, err := c.fresh(ctx)
		if err != nil {
			return Version{}, err
		}
		v, found, err := p.decide(d, c.maxBytes)
		if err != nil || found {
			return v, err
		}
		ch, err := p.adding(v)
		if err != nil {
			return Version{}, err
		}
		if done, err := c.commit(ctx, p, ch); err != nil || done {
			return v, err
		}
	}
}

// decide returns the version that has a draft's schema, or the one that it
// becomes.
func (p *picture) decide(d Draft, maxBytes int) (v Version, found bool, err error) {
	if p.mode(d.Subject) == ReadOnly {
		return Version{}, false, ErrReadOnly.WithMessage("subject %q is read-only", d.Subject)
	}
	parsed, err := p.parse(d)
	if err != nil {
		return Version{}, false, err
	}
	s := p.subject(d.Subject)
	if v, ok := s.same(d, parsed, false); ok {
		return v, true, nil
	}
	verdict, err := p.judge(d.Subject, parsed, s.list(false))
	if err != nil {
		return Version{}, false, err
	}
	if !verdict.Compatible() {
		return Version{}, false, ErrIncompatible.WithMessage("%s", describe(verdict))
	}
	if p.bytes+len(d.Text) > maxBytes {
		return Version{}, false, ErrFull.WithMessage("all schemas together have at most %d bytes; delete some for good", maxBytes)
	}
	row := &persistv1.SchemaRow{
		Id:          p.lastID + 1,
		Subject:     d.Subject,
		Version:     s.row.GetLastVersion() + 1,
		Type:        string(d.Type),
		Schema:      d.Text,
		Fingerprint: parsed.Fingerprint[:],
	}
	if v, ok := s.same(d, parsed, true); ok {
		row.Id = v.GetId()
	}
	for _, ref := range d.References {
		row.References = append(row.References, &persistv1.SchemaReferenceRow{Name: ref.Name, Subject: ref.Subject, Version: ref.Version})
	}
	return Version{SchemaRow: row}, false, nil
}

// describe says in one line what stands against a schema: all that one direction
// has, since the other's is mostly the same.
func describe(v schema.Verdict) string {
	direction, faults := "backward-incompatible: ", v.Backward
	if len(faults) == 0 {
		direction, faults = "forward-incompatible: ", v.Forward
	}
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults:maxFaults], "and more")
	}
	return direction + strings.Join(faults, "; ")
}

// adding is the change that adds a version.
func (p *picture) adding(v Version) (change, error) {
	ch := change{lastID: max(p.lastID, v.GetId())}
	subject := proto.CloneOf(p.subject(v.GetSubject()).row)
	subject.LastVersion = v.GetVersion()
	for _, row := range []struct {
		key string
		row proto.Message
	}{
		{versionKey(v.GetSubject(), v.GetVersion()), v.SchemaRow},
		{subjectKey(v.GetSubject()), subject},
	} {
		op, err := put(row.key, row.row)
		if err != nil {
			return change{}, err
		}
		ch.ops = append(ch.ops, op)
	}
	return ch, nil
}

// rewriting is the change that writes a subject's row anew.
func (p *picture) rewriting(row *persistv1.SchemaSubjectRow, also ...clientv3.Op) (change, error) {
	op, err := put(subjectKey(row.GetSubject()), row)
	return change{lastID: p.lastID, ops: append(also, op)}, err
}
