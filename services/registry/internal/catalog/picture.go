package catalog

import (
	"bytes"
	"slices"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

// A Version is a schema and where it stands.
type Version struct {
	*persistv1.SchemaRow
	// Hidden, though its id is resolved.
	Deleted bool
}

// A picture is all schemas at one moment. It never changes.
type picture struct {
	// Of the state row; 0 when there is none.
	revision int64
	lastID   int32
	subjects map[string]*subject
	byID     map[int32]Version
	// Of all texts.
	bytes int
}

// A subject is its row and its versions, hidden ones too, in order.
type subject struct {
	row      *persistv1.SchemaSubjectRow
	versions []Version
}

func pictureOf(
	revision int64, state *persistv1.SchemaStateRow,
	subjects map[string]*persistv1.SchemaSubjectRow, versions map[string]*persistv1.SchemaRow,
) *picture {
	p := &picture{
		revision: revision,
		lastID:   state.GetLastId(),
		subjects: make(map[string]*subject, len(subjects)),
		byID:     make(map[int32]Version, len(versions)),
	}
	for _, row := range subjects {
		p.subjects[row.GetSubject()] = &subject{row: row}
	}
	for _, row := range versions {
		s := p.subjects[row.GetSubject()]
		if s == nil {
			s = &subject{row: &persistv1.SchemaSubjectRow{Subject: row.GetSubject(), LastVersion: row.GetVersion()}}
			p.subjects[row.GetSubject()] = s
		}
		v := Version{row, slices.Contains(s.row.GetDeletedVersions(), row.GetVersion())}
		s.versions = append(s.versions, v)
		// A schema that was deleted and came back has its id twice.
		if had, ok := p.byID[row.GetId()]; !ok || had.Deleted || !v.Deleted && v.GetVersion() > had.GetVersion() {
			p.byID[row.GetId()] = v
		}
		p.lastID = max(p.lastID, row.GetId())
		p.bytes += len(row.GetSchema())
	}
	for _, s := range p.subjects {
		slices.SortFunc(s.versions, func(a, b Version) int { return int(a.GetVersion() - b.GetVersion()) })
	}
	return p
}

// subject returns a subject, an empty one when there is none of the name.
func (p *picture) subject(name string) *subject {
	if s := p.subjects[name]; s != nil {
		return s
	}
	return &subject{row: &persistv1.SchemaSubjectRow{Subject: name}}
}

// list returns the versions that are not hidden, or all.
func (s *subject) list(deleted bool) []Version {
	var list []Version
	for _, v := range s.versions {
		if deleted || !v.Deleted {
			list = append(list, v)
		}
	}
	return list
}

// find returns a version by its number; Newest is the newest.
func (s *subject) find(number int32, deleted bool) (Version, error) {
	versions := s.list(deleted)
	if len(versions) == 0 {
		return Version{}, ErrUnknownSubject.WithMessage("there is no subject %q", s.row.GetSubject())
	}
	if number == Newest {
		return versions[len(versions)-1], nil
	}
	for _, v := range versions {
		if v.GetVersion() == number {
			return v, nil
		}
	}
	return Version{}, ErrUnknownVersion.WithMessage("subject %q has no version %d", s.row.GetSubject(), number)
}

// same returns the newest version that has a schema.
func (s *subject) same(d Draft, parsed *schema.Schema, deleted bool) (Version, bool) {
	for _, v := range slices.Backward(s.versions) {
		if v.Deleted == deleted && v.GetType() == string(d.Type) && sameReferences(v.GetReferences(), d.References) &&
			(v.GetSchema() == d.Text || bytes.Equal(v.GetFingerprint(), parsed.Fingerprint[:])) {
			return v, true
		}
	}
	return Version{}, false
}

func sameReferences(rows []*persistv1.SchemaReferenceRow, refs []Reference) bool {
	return slices.EqualFunc(rows, refs, func(row *persistv1.SchemaReferenceRow, ref Reference) bool {
		return ref == Reference{row.GetName(), row.GetSubject(), row.GetVersion()}
	})
}

// level returns what a subject's versions must be compatible with.
func (p *picture) level(name string) schema.Level {
	for _, s := range []string{name, ""} {
		if level := p.subject(s).row.GetCompatibility(); level != "" {
			return schema.Level(level)
		}
	}
	return schema.LevelBackward
}

// mode returns whether a subject can be changed.
func (p *picture) mode(name string) string {
	for _, s := range []string{name, ""} {
		if mode := p.subject(s).row.GetMode(); mode != "" {
			return mode
		}
	}
	return ReadWrite
}

// user returns a version that refers to another; one that is hidden counts only
// if asked for.
func (p *picture) user(name string, number int32, deleted bool) (Version, bool) {
	for _, s := range p.subjects {
		for _, v := range s.versions {
			for _, ref := range v.GetReferences() {
				if (deleted || !v.Deleted) && ref.GetSubject() == name && ref.GetVersion() == number {
					return v, true
				}
			}
		}
	}
	return Version{}, false
}
