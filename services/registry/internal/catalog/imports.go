package catalog

import (
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

const (
	// maxReferences is how many schemas one may use, those that they use too.
	maxReferences = 256
	// maxImported is how many bytes these may have together.
	maxImported = 8 << 20
)

// A Reference is a version of a subject, by the name that a schema uses for it.
type Reference struct {
	Name, Subject string
	Version       int32
}

func referencesOf(rows []*persistv1.SchemaReferenceRow) []Reference {
	refs := make([]Reference, len(rows))
	for i, row := range rows {
		refs[i] = Reference{row.GetName(), row.GetSubject(), row.GetVersion()}
	}
	return refs
}

// parse reads a draft together with what it refers to.
func (p *picture) parse(d Draft) (*schema.Schema, error) {
	r := resolver{picture: p, seen: make(map[string]Reference)}
	if err := r.resolve(d.References, false); err != nil {
		return nil, err
	}
	return schema.Parse(schema.Source{Type: d.Type, Text: d.Text, Imports: r.imports})
}

// parseVersion reads a version that was registered. What it refers to may be
// hidden by now.
func (p *picture) parseVersion(v Version) (*schema.Schema, error) {
	r := resolver{picture: p, seen: make(map[string]Reference)}
	if err := r.resolve(referencesOf(v.GetReferences()), true); err != nil {
		return nil, err
	}
	return schema.Parse(schema.Source{Type: schema.Type(v.GetType()), Text: v.GetSchema(), Imports: r.imports})
}

// A resolver gathers what a schema refers to. There are no circles: a version
// refers only to versions that were there before it.
type resolver struct {
	picture *picture
	seen    map[string]Reference
	imports []schema.Import
	bytes   int
}

func (r *resolver) resolve(refs []Reference, deleted bool) error {
	for _, ref := range refs {
		if ref.Name == "" || ref.Subject == "" {
			return schema.ErrInvalid.WithMessage("invalid schema: a reference needs a name and a subject")
		}
		if had, ok := r.seen[ref.Name]; ok {
			if had != ref {
				return schema.ErrInvalid.WithMessage("invalid schema: the reference %q means two schemas", ref.Name)
			}
			continue
		}
		v, err := r.picture.subject(ref.Subject).find(ref.Version, deleted)
		if err != nil || ref.Version < 1 {
			return schema.ErrInvalid.WithMessage("invalid schema: reference %q: subject %q has no version %d", ref.Name, ref.Subject, ref.Version)
		}
		r.seen[ref.Name] = ref
		r.bytes += len(v.GetSchema())
		if len(r.seen) > maxReferences || r.bytes > maxImported {
			return schema.ErrInvalid.WithMessage("invalid schema: it refers to more than %d schemas or %d bytes", maxReferences, maxImported)
		}
		// Its own references were resolved when it was registered.
		if err := r.resolve(referencesOf(v.GetReferences()), true); err != nil {
			return err
		}
		r.imports = append(r.imports, schema.Import{Name: ref.Name, Text: v.GetSchema()})
	}
	return nil
}
