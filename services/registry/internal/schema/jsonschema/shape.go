package jsonschema

import (
	"iter"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// The drafts write some things in several ways. These read them in one.

var (
	no    = false
	never = &js.Schema{Bool: &no}
)

// forbids says whether a schema has no valid value by its looks.
func forbids(s *js.Schema) bool { return s.Bool != nil && !*s.Bool }

// trivial says whether a schema says nothing.
func trivial(s *js.Schema) bool {
	switch {
	case s == nil || s.Bool != nil:
		return s == nil || *s.Bool
	case s.Types != nil || s.Ref != nil || s.Properties != nil || s.Enum != nil || s.Const != nil:
		// The way of most; what follows takes longer.
		return false
	default:
		return same(s, &js.Schema{})
	}
}

// opened returns the schema of something whose schema may be a boolean or absent;
// nil says nothing.
func opened(value any) *js.Schema {
	switch v := value.(type) {
	case bool:
		if !v {
			return never
		}
	case *js.Schema:
		if !trivial(v) {
			return v
		}
	}
	return nil
}

// others is the schema of properties that a schema does not name; nil when it
// says nothing.
func others(s *js.Schema) *js.Schema { return opened(s.AdditionalProperties) }

// leading are the schemas of the first elements, and rest that of the elements
// after them; nil when the schema says nothing.
func leading(s *js.Schema) []*js.Schema {
	if list, ok := s.Items.([]*js.Schema); ok {
		return list
	}
	return s.PrefixItems
}

func rest(s *js.Schema) *js.Schema {
	switch v := s.Items.(type) {
	case []*js.Schema:
		return opened(s.AdditionalItems)
	case nil:
		if s.Items2020 != nil {
			return opened(s.Items2020)
		}
		return nil
	default:
		return opened(v)
	}
}

// element is the schema of the element at an index; nil when it says nothing.
func element(s *js.Schema, i int) *js.Schema {
	if list := leading(s); i < len(list) {
		return list[i]
	}
	return rest(s)
}

// needs are the properties that must be there when another one is.
func needs(s *js.Schema) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for name, list := range s.DependentRequired {
			if !yield(name, list) {
				return
			}
		}
		for name, value := range s.Dependencies {
			if list, ok := value.([]string); ok && !yield(name, list) {
				return
			}
		}
	}
}

// implied are the schemas of the whole object when it has a property.
func implied(s *js.Schema) iter.Seq2[string, *js.Schema] {
	return func(yield func(string, *js.Schema) bool) {
		for name, schema := range s.DependentSchemas {
			if !yield(name, schema) {
				return
			}
		}
		for name, value := range s.Dependencies {
			if schema, ok := value.(*js.Schema); ok && !yield(name, schema) {
				return
			}
		}
	}
}

// beside are the schemas within a schema that are about the same value.
func beside(s *js.Schema) iter.Seq[*js.Schema] {
	return func(yield func(*js.Schema) bool) {
		single := []*js.Schema{s.Ref, s.RecursiveRef, s.If, s.Then, s.Else, s.Not}
		if s.DynamicRef != nil {
			single = append(single, s.DynamicRef.Ref)
		}
		for _, list := range [][]*js.Schema{single, s.AllOf, s.AnyOf, s.OneOf} {
			for _, schema := range list {
				if schema != nil && !yield(schema) {
					return
				}
			}
		}
		for _, schema := range implied(s) {
			if !yield(schema) {
				return
			}
		}
	}
}

// place are all schemas that are about the same value as some schemas.
func place(roots []*js.Schema) []*js.Schema {
	var all []*js.Schema
	seen := make(map[*js.Schema]bool)
	var visit func(*js.Schema)
	visit = func(s *js.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		all = append(all, s)
		for other := range beside(s) {
			visit(other)
		}
	}
	for _, root := range roots {
		visit(root)
	}
	return all
}

// inside are the schemas within a schema that are about a part of the value.
func inside(s *js.Schema) iter.Seq[*js.Schema] {
	return func(yield func(*js.Schema) bool) {
		single := []*js.Schema{s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Contains, s.Items2020, opened(s.AdditionalProperties), opened(s.AdditionalItems)}
		if one, ok := s.Items.(*js.Schema); ok {
			single = append(single, one)
		}
		for _, list := range [][]*js.Schema{single, leading(s)} {
			for _, schema := range list {
				if schema != nil && !yield(schema) {
					return
				}
			}
		}
		for _, schema := range s.Properties {
			if !yield(schema) {
				return
			}
		}
		for _, schema := range s.PatternProperties {
			if !yield(schema) {
				return
			}
		}
	}
}

// loops says where a schema is about the same value as itself without an end: it
// has no meaning, and would be followed forever.
func loops(root *js.Schema) (at string, found bool) {
	const (
		open = iota + 1
		done
	)
	state := make(map[*js.Schema]int)
	var circle func(*js.Schema) *js.Schema
	circle = func(s *js.Schema) *js.Schema {
		switch state[s] {
		case open:
			return s
		case done:
			return nil
		}
		state[s] = open
		for other := range beside(s) {
			if c := circle(other); c != nil {
				return c
			}
		}
		state[s] = done
		return nil
	}
	queue, seen := []*js.Schema{root}, map[*js.Schema]bool{root: true}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if c := circle(s); c != nil {
			return c.Location, true
		}
		for _, list := range []iter.Seq[*js.Schema]{beside(s), inside(s)} {
			for other := range list {
				if !seen[other] {
					seen[other] = true
					queue = append(queue, other)
				}
			}
		}
	}
	return "", false
}
