package jsonschema

import (
	"maps"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

func fields(f *proof, g *js.Schema) bool {
	all := true
	for _, name := range g.Required {
		if !f.p.requires(name) {
			all = f.refuse("adds required field '%s'", name)
		}
	}
	return all
}

func counts(f *proof, g *js.Schema) bool {
	if g.MinProperties != nil && len(f.p.required()) < *g.MinProperties &&
		!f.atLeast(g.MinProperties, func(s *js.Schema) *int { return s.MinProperties }, "minProperties") {
		return false
	}
	most := f.p.most(func(s *js.Schema) *int { return s.MaxProperties })
	for _, s := range f.p.facts {
		if n := len(s.Properties); closed(s) && (most == nil || n < *most) {
			most = &n
		}
	}
	return f.atMost(g.MaxProperties, most, "maxProperties")
}

// closed says whether a schema allows only properties that it names.
func closed(s *js.Schema) bool {
	rest := others(s)
	return rest != nil && forbids(rest) && len(s.PatternProperties) == 0
}

// field shows a schema for the value of a property.
func (f *proof) field(name string, want *js.Schema) bool {
	have := f.p.property(name)
	if len(have) == 0 && !f.p.writes(name) {
		return true
	}
	if f.quiet || !forbids(want) {
		var roots []*js.Schema
		for _, s := range f.p.place() {
			roots = append(roots, propertyOf(s, name)...)
		}
		return f.part(have, roots, want, name, f.quiet)
	}
	if known(have, have).kinds() == 0 {
		return true
	}
	return f.refuse("no longer allows the property '%s'", name)
}

func named(f *proof, g *js.Schema) bool {
	all := true
	for _, name := range slices.Sorted(maps.Keys(g.Properties)) {
		if !f.field(name, g.Properties[name]) {
			if all = false; f.quiet {
				return false
			}
		}
	}
	return all
}

func patterns(f *proof, g *js.Schema) bool {
	for pattern, want := range g.PatternProperties {
		for _, name := range f.p.names() {
			if pattern.MatchString(name) && !f.field(name, want) {
				return false
			}
		}
		if trivial(want) || f.patterned(pattern, want) {
			continue
		}
		return f.refuse("restricts the properties that match %q", pattern.String())
	}
	return true
}

// patterned shows a schema for the properties that no schema at the place names
// and that match a pattern. An open object has none of those.
func (f *proof) patterned(pattern js.Regexp, want *js.Schema) bool {
	for _, s := range f.p.place() {
		if len(s.PatternProperties) == 0 && others(s) == nil {
			continue
		}
		// Some may be written. What one fact says of them is enough.
		return slices.ContainsFunc(f.p.facts, func(s *js.Schema) bool {
			if schema := patterned(s.PatternProperties, pattern); schema != nil {
				return f.other(schema, want)
			}
			return others(s) != nil && f.unnamedFollow(s, nil, want)
		})
	}
	return true
}

// unnamedFollow shows a schema for the properties that a fact does not name, but
// for those under patterns that some schema has too.
func (f *proof) unnamedFollow(s *js.Schema, but map[js.Regexp]*js.Schema, want *js.Schema) bool {
	for pattern, schema := range s.PatternProperties {
		if patterned(but, pattern) == nil && !f.other(schema, want) {
			return false
		}
	}
	rest := others(s)
	return rest != nil && f.other(rest, want)
}

// other shows a schema for properties that have no name, of which one is known.
func (f *proof) other(have, want *js.Schema) bool {
	return f.part([]*js.Schema{have}, othersAt(f.p.place()), want, "*", true)
}

// unnamed is about additionalProperties.
func unnamed(f *proof, g *js.Schema) bool {
	want := others(g)
	if want == nil {
		return true
	}
	all := true
	for _, name := range f.p.names() {
		if g.Properties[name] != nil || matchesAny(g, name) {
			continue
		}
		if !f.field(name, want) {
			if all = false; f.quiet {
				return false
			}
		}
	}
	if !slices.ContainsFunc(f.p.facts, func(s *js.Schema) bool { return f.unnamedFollow(s, g.PatternProperties, want) }) {
		if forbids(want) {
			return f.refuse("no longer allows additional properties")
		}
		return f.refuse("restricts additional properties")
	}
	return all
}

func matchesAny(s *js.Schema, name string) bool {
	for pattern := range s.PatternProperties {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

func fieldNames(f *proof, g *js.Schema) bool {
	if trivial(g.PropertyNames) {
		return true
	}
	var have []*js.Schema
	for _, s := range f.p.facts {
		if s.PropertyNames != nil {
			have = append(have, s.PropertyNames)
		}
		if closed(s) {
			// These are all names that there can be.
			if !slices.ContainsFunc(slices.Collect(maps.Keys(s.Properties)), func(name string) bool { return g.PropertyNames.Validate(name) != nil }) {
				return true
			}
		}
	}
	if f.implies(known(have, have).only(text), g.PropertyNames, f.at.in("*"), true) {
		return true
	}
	return f.refuse("restricts the names of properties")
}

// dependent is about what must be there, or hold, when a property is there.
func dependent(f *proof, g *js.Schema) bool {
	for name, list := range needs(g) {
		if !f.p.writes(name) {
			continue
		}
		for _, other := range list {
			if !f.p.requires(other) && !slices.ContainsFunc(f.p.facts, func(s *js.Schema) bool {
				for have, others := range needs(s) {
					if have == name && slices.Contains(others, other) {
						return true
					}
				}
				return false
			}) {
				return f.refuse("adds required field '%s' beside '%s'", other, name)
			}
		}
	}
	for name, want := range implied(g) {
		if !f.p.writes(name) {
			continue
		}
		there := f.p.only(object).add(way{facts: []*js.Schema{{Required: []string{name}}}})
		if !f.implies(there, want, f.at, true) {
			return f.refuse("asks for more when '%s' is there", name)
		}
	}
	return true
}
