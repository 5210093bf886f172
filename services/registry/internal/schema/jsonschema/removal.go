package jsonschema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// A removal looks for properties that a schema named and another does not name.
// It goes by places in the document and not by schemas: where a property stands
// within anyOf or behind a reference makes no difference.
type removal struct {
	*comparison
	// Places that were looked at, by their schemas.
	seen map[string]bool
}

func (r removal) look(before, after []*js.Schema, at path) {
	before, after = place(before), place(after)
	if len(before) == 0 {
		return
	}
	key := r.key(premise{facts: before, nots: after}, before[0])
	if r.seen[key] || len(at) > maxPath || len(r.seen) > maxSteps {
		return
	}
	r.seen[key] = true

	had, has := propertiesAt(before), propertiesAt(after)
	for _, name := range slices.Sorted(maps.Keys(had)) {
		schemas := had[name]
		if !slices.ContainsFunc(schemas, func(s *js.Schema) bool { return !forbids(s) }) {
			continue
		}
		var now []*js.Schema
		now = append(now, has[name]...)
		for _, s := range after {
			for pattern, schema := range s.PatternProperties {
				if pattern.MatchString(name) {
					now = append(now, schema)
				}
			}
		}
		if len(now) == 0 {
			r.fault(at, "removes property '%s'", name)
			continue
		}
		r.look(schemas, now, at.in(name))
	}
	r.look(elementsAt(before), elementsAt(after), at.in("[]"))
	r.look(othersAt(before), othersAt(after), at.in("*"))
}

func propertiesAt(schemas []*js.Schema) map[string][]*js.Schema {
	all := make(map[string][]*js.Schema)
	for _, s := range schemas {
		for name, schema := range s.Properties {
			all[name] = append(all[name], schema)
		}
	}
	return all
}

func elementsAt(schemas []*js.Schema) []*js.Schema {
	var all []*js.Schema
	for _, s := range schemas {
		all = append(all, leading(s)...)
		if s.Contains != nil {
			all = append(all, s.Contains)
		}
		if r := rest(s); r != nil {
			all = append(all, r)
		}
	}
	return all
}

func othersAt(schemas []*js.Schema) []*js.Schema {
	var all []*js.Schema
	for _, s := range schemas {
		if o := others(s); o != nil {
			all = append(all, o)
		}
		for _, pattern := range slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b js.Regexp) int {
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
		}) {
			all = append(all, s.PatternProperties[pattern])
		}
	}
	return all
}
