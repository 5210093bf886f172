package jsonschema

import (
	"fmt"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

func sizes(f *proof, g *js.Schema) bool {
	if g.UniqueItems && !slices.ContainsFunc(f.p.facts, func(s *js.Schema) bool { return s.UniqueItems }) {
		if most := f.p.elements(); most == nil || *most > 1 {
			return f.refuse("allows no element twice")
		}
	}
	return f.atLeast(g.MinItems, func(s *js.Schema) *int { return s.MinItems }, "minItems") &&
		f.atMost(g.MaxItems, f.p.elements(), "maxItems")
}

func elements(f *proof, g *js.Schema) bool {
	first := len(leading(g))
	for _, s := range f.p.facts {
		first = max(first, len(leading(s)))
	}
	most := f.p.elements()
	roots := elementsAt(f.p.place())
	all := true
	// The element at first stands for all that follow.
	for i := 0; i <= first && (most == nil || i < *most); i++ {
		want := element(g, i)
		if want == nil {
			continue
		}
		var have []*js.Schema
		for _, s := range f.p.facts {
			if schema := element(s, i); schema != nil {
				have = append(have, schema)
			}
		}
		step := "[]"
		if i < first {
			step = fmt.Sprintf("[%d]", i)
		}
		if !f.part(have, roots, want, step, f.quiet) {
			if all = false; f.quiet {
				return false
			}
		}
	}
	return all
}

func containing(f *proof, g *js.Schema) bool {
	if g.Contains == nil {
		return true
	}
	least := 1
	if g.MinContains != nil {
		least = *g.MinContains
	}
	if least == 0 && g.MaxContains == nil {
		return true
	}
	roots := elementsAt(f.p.place())
	for _, s := range f.p.facts {
		if s.Contains == nil {
			continue
		}
		have := 1
		if s.MinContains != nil {
			have = *s.MinContains
		}
		enough := have >= least && f.part([]*js.Schema{s.Contains}, roots, g.Contains, "[]", true)
		few := g.MaxContains == nil || s.MaxContains != nil && *s.MaxContains <= *g.MaxContains &&
			f.part([]*js.Schema{g.Contains}, roots, s.Contains, "[]", true)
		if enough && few {
			return true
		}
	}
	return f.refuse("asks for elements with contains")
}
