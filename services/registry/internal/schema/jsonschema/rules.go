package jsonschema

import (
	"encoding/json"
	"math/big"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// rules are all rules. Each shows its keywords of a schema, or refuses.
var rules []rule

func init() {
	// rules refers to functions that refer to it.
	rules = []rule{
		{anyKind, types},
		{anyKind, list},
		{anyKind, alternatives},
		{anyKind, exclusive},
		{anyKind, negation},
		{anyKind, conditional},
		{anyKind, opaque},
		{number, bounds},
		{number, multiples},
		{text, lengths},
		{text, forms},
		{array, sizes},
		{array, elements},
		{array, containing},
		{object, fields},
		{object, counts},
		{object, named},
		{object, patterns},
		{object, unnamed},
		{object, fieldNames},
		{object, dependent},
	}
}

func types(f *proof, g *js.Schema) bool {
	if forbids(g) {
		return f.refuse("no longer allows any value")
	}
	if g.Types == nil {
		return true
	}
	var allowed kinds
	for _, name := range g.Types.ToStrings() {
		allowed |= kindNames[name]
	}
	if k := f.p.kinds(); k&^allowed != 0 {
		return f.refuse("narrows the type from %s to %s", k, allowed)
	}
	return true
}

// list is about enum and const. Premises whose values can be counted do not come
// here.
func list(f *proof, g *js.Schema) bool {
	if _, ok := listed(g); ok {
		return f.refuse("allows only listed values")
	}
	return true
}

func alternatives(f *proof, g *js.Schema) bool {
	if len(g.AnyOf) == 0 || slices.ContainsFunc(g.AnyOf, f.follows) {
		return true
	}
	return f.refuse("has no alternative in anyOf for what was allowed")
}

func exclusive(f *proof, g *js.Schema) bool {
	if len(g.OneOf) == 0 {
		return true
	}
	for i, one := range g.OneOf {
		if !f.follows(one) {
			continue
		}
		for j, other := range g.OneOf {
			if i != j && !f.excludes(other) {
				return f.refuse("has more than one alternative in oneOf for what was allowed")
			}
		}
		return true
	}
	return f.refuse("has no alternative in oneOf for what was allowed")
}

func negation(f *proof, g *js.Schema) bool {
	if g.Not == nil || f.excludes(g.Not) {
		return true
	}
	return f.refuse("may exclude with not what was allowed")
}

func conditional(f *proof, g *js.Schema) bool {
	if g.If == nil {
		return true
	}
	then := g.Then == nil || f.implies(f.p.add(way{facts: []*js.Schema{g.If}}), g.Then, f.at, true)
	otherwise := g.Else == nil || f.implies(f.p.add(way{nots: []*js.Schema{g.If}}), g.Else, f.at, true)
	if then && otherwise || then && f.follows(g.If) || otherwise && f.excludes(g.If) {
		return true
	}
	return f.refuse("has an if that what was allowed may fail")
}

// opaque is about what depends on more than the schema itself. It holds only
// where it is as it was, which has been seen by now.
func opaque(f *proof, g *js.Schema) bool {
	for _, keyword := range []struct {
		name  string
		there bool
	}{
		{"$recursiveRef", g.RecursiveRef != nil},
		{"$dynamicRef", g.DynamicRef != nil},
		{"unevaluatedProperties", !trivial(g.UnevaluatedProperties)},
		{"unevaluatedItems", !trivial(g.UnevaluatedItems)},
	} {
		if keyword.there {
			return f.refuse("has %s, which is compared only where nothing changes", keyword.name)
		}
	}
	return true
}

func bounds(f *proof, g *js.Schema) bool {
	for _, want := range []limit{{g.Minimum, false}, {g.ExclusiveMinimum, true}} {
		if want.at == nil {
			continue
		}
		if have := f.p.lower(); have == nil || !want.below(*have) {
			return f.refuse("raises the minimum to %s", want.at.RatString())
		}
	}
	for _, want := range []limit{{g.Maximum, false}, {g.ExclusiveMaximum, true}} {
		if want.at == nil {
			continue
		}
		if have := f.p.upper(); have == nil || !want.above(*have) {
			return f.refuse("lowers the maximum to %s", want.at.RatString())
		}
	}
	return true
}

func multiples(f *proof, g *js.Schema) bool {
	if g.MultipleOf == nil || g.MultipleOf.Sign() == 0 {
		return true
	}
	divides := func(of *big.Rat) bool { return new(big.Rat).Quo(of, g.MultipleOf).IsInt() }
	if f.p.kinds()&fraction == 0 && divides(big.NewRat(1, 1)) {
		return true
	}
	for _, s := range f.p.facts {
		if s.MultipleOf != nil && divides(s.MultipleOf) {
			return true
		}
	}
	return f.refuse("allows only multiples of %s", g.MultipleOf.RatString())
}

// atLeast and atMost show a bound that counts something.
func (f *proof) atLeast(want *int, bound func(*js.Schema) *int, name string) bool {
	if want == nil || *want <= 0 {
		return true
	}
	if have := f.p.least(bound); have != nil && *have >= *want {
		return true
	}
	return f.refuse("raises %s to %d", name, *want)
}

func (f *proof) atMost(want, have *int, name string) bool {
	if want == nil || have != nil && *have <= *want {
		return true
	}
	return f.refuse("lowers %s to %d", name, *want)
}

func lengths(f *proof, g *js.Schema) bool {
	return f.atLeast(g.MinLength, func(s *js.Schema) *int { return s.MinLength }, "minLength") &&
		f.atMost(g.MaxLength, f.p.most(func(s *js.Schema) *int { return s.MaxLength }), "maxLength")
}

// forms is about patterns and formats, which hold only where they were there.
func forms(f *proof, g *js.Schema) bool {
	if g.Pattern != nil && !slices.ContainsFunc(f.p.facts, func(s *js.Schema) bool {
		return s.Pattern != nil && s.Pattern.String() == g.Pattern.String()
	}) {
		return f.refuse("allows only the pattern %q", g.Pattern.String())
	}
	if g.Format != nil && !slices.ContainsFunc(f.p.facts, func(s *js.Schema) bool {
		return s.Format != nil && s.Format.Name == g.Format.Name
	}) {
		return f.refuse("allows only the format %q", g.Format.Name)
	}
	return true
}

// excludes shows that no value of the premise is valid under a schema.
func (f *proof) excludes(s *js.Schema) bool {
	return f.empty(f.p.add(way{facts: []*js.Schema{s}}), 4)
}

// empty shows that a premise has no value. It looks only so deep.
func (f *proof) empty(p premise, deep int) bool {
	k := p.kinds()
	if k == 0 || slices.ContainsFunc(p.nots, func(not *js.Schema) bool { return f.among(p.facts, not) }) {
		return true
	}
	if f.steps++; deep == 0 || f.steps > maxSteps {
		return false
	}
	if values, ok := p.values(); ok {
		f.steps += len(values)
		return len(values) == 0
	}
	if k == object {
		for _, name := range p.required() {
			if schemas := p.property(name); len(schemas) > 0 && f.empty(known(schemas, schemas), deep-1) {
				return true
			}
		}
	}
	if k&^number == 0 {
		if low, high := p.lower(), p.upper(); low != nil && high != nil {
			if c := low.at.Cmp(high.at); c > 0 || c == 0 && (low.open || high.open) {
				return true
			}
		}
	}
	for i, not := range p.nots {
		without := p
		without.nots = slices.Concat(p.nots[:i], p.nots[i+1:])
		if f.implies(without, not, f.at, true) {
			return true
		}
	}
	if len(p.splits) > 0 {
		for _, w := range p.splits[0] {
			if !f.empty(p.taking(w), deep-1) {
				return false
			}
		}
		return true
	}
	return false
}

// maxValue is how much of a value a fault shows.
const maxValue = 60

func shorten(value any) string {
	// It fails only for what no JSON decodes to.
	out, _ := json.Marshal(value)
	if len(out) > maxValue {
		return string([]rune(string(out[:maxValue]))) + "…"
	}
	return string(out)
}
