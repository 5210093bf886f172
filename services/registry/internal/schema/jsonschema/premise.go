package jsonschema

import (
	"math/big"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// A premise is what is known of a value: it is valid under all facts and under
// none of nots, and in each split one of the ways holds. It never changes; add
// returns another one.
type premise struct {
	// Each stands for its own keywords; what it refers to is there beside it.
	facts  []*js.Schema
	nots   []*js.Schema
	splits []split
	// The kinds that the value may have, as far as nothing else says.
	mask kinds
	// All schemas at the value's place in the document, whether they hold or not:
	// they say which properties have a name at all. The facts are among them, or
	// parts of them, but for what was added to see what follows.
	roots []*js.Schema
}

// A split is that at least one of some ways holds.
type split []way

// A way is schemas that hold and some that do not.
type way struct {
	facts, nots []*js.Schema
}

// known is what is known of a value that is valid under some schemas, out of all
// at its place.
func known(facts, roots []*js.Schema) premise {
	return premise{mask: anyKind, roots: roots}.add(way{facts: facts})
}

// place are all schemas at the value's place.
func (p premise) place() []*js.Schema {
	return place(slices.Concat(p.roots, p.facts))
}

// only is the premise of a value of some kinds.
func (p premise) only(k kinds) premise {
	p.mask &= k
	return p
}

// taking is the premise with its first split resolved to one way.
func (p premise) taking(w way) premise {
	p.splits = p.splits[1:]
	return p.add(w)
}

func (p premise) add(w way) premise {
	p.facts = slices.Clip(p.facts)
	p.nots = slices.Concat(p.nots, w.nots)
	p.splits = slices.Clip(p.splits)
	queue := slices.Clone(w.facts)
	for {
		for len(queue) > 0 {
			s := queue[0]
			queue = queue[1:]
			if slices.Contains(p.facts, s) {
				continue
			}
			p.facts = append(p.facts, s)
			if s.Ref != nil {
				queue = append(queue, s.Ref)
			}
			queue = append(queue, s.AllOf...)
			if s.Not != nil {
				p.nots = append(p.nots, s.Not)
			}
			p.splits = append(p.splits, splitsOf(s)...)
		}
		// Schemas that hold because a property is there, which only objects have.
		for _, s := range p.facts {
			if p.kinds() != object {
				break
			}
			for name, schema := range implied(s) {
				if p.requires(name) && !slices.Contains(p.facts, schema) {
					queue = append(queue, schema)
				}
			}
		}
		if len(queue) == 0 {
			return p
		}
	}
}

func splitsOf(s *js.Schema) []split {
	var splits []split
	if len(s.AnyOf) > 0 {
		var ways split
		for _, one := range s.AnyOf {
			ways = append(ways, way{facts: []*js.Schema{one}})
		}
		splits = append(splits, ways)
	}
	if len(s.OneOf) > 0 {
		var ways split
		for i, one := range s.OneOf {
			w := way{facts: []*js.Schema{one}}
			w.nots = append(w.nots, s.OneOf[:i]...)
			w.nots = append(w.nots, s.OneOf[i+1:]...)
			ways = append(ways, w)
		}
		splits = append(splits, ways)
	}
	if s.If != nil && (s.Then != nil || s.Else != nil) {
		yes, otherwise := way{facts: []*js.Schema{s.If}}, way{nots: []*js.Schema{s.If}}
		if s.Then != nil {
			yes.facts = append(yes.facts, s.Then)
		}
		if s.Else != nil {
			otherwise.facts = append(otherwise.facts, s.Else)
		}
		splits = append(splits, split{yes, otherwise})
	}
	return splits
}

// kinds are those that the value may have.
func (p premise) kinds() kinds {
	k := p.mask
	for _, s := range p.facts {
		k &= kindsOf(s)
	}
	return k
}

// requires says whether an object has a property for sure.
func (p premise) requires(name string) bool {
	return slices.ContainsFunc(p.facts, func(s *js.Schema) bool { return slices.Contains(s.Required, name) })
}

func (p premise) required() []string {
	var names []string
	for _, s := range p.facts {
		names = append(names, s.Required...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// property is what is known of the value of a property; nothing when no fact
// speaks of it.
func (p premise) property(name string) []*js.Schema {
	var schemas []*js.Schema
	for _, s := range p.facts {
		schemas = append(schemas, propertyOf(s, name)...)
	}
	return schemas
}

func propertyOf(s *js.Schema, name string) []*js.Schema {
	var schemas []*js.Schema
	if own := s.Properties[name]; own != nil {
		schemas = append(schemas, own)
	}
	for pattern, schema := range s.PatternProperties {
		if pattern.MatchString(name) {
			schemas = append(schemas, schema)
		}
	}
	if rest := others(s); len(schemas) == 0 && rest != nil {
		schemas = append(schemas, rest)
	}
	return schemas
}

// names are the properties that the schemas at this place name.
func (p premise) names() []string {
	var names []string
	for _, s := range p.place() {
		for name := range s.Properties {
			names = append(names, name)
		}
		names = append(names, s.Required...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// writes says whether a document may have a property at this place: see the
// package comment.
func (p premise) writes(name string) bool {
	for _, s := range p.place() {
		if len(propertyOf(s, name)) > 0 || slices.Contains(s.Required, name) {
			return true
		}
	}
	return false
}

// least and most are the tightest of a bound that facts have; nil when none has.
func (p premise) least(bound func(*js.Schema) *int) *int {
	return p.tightest(bound, func(a, b int) bool { return a > b })
}

func (p premise) most(bound func(*js.Schema) *int) *int {
	return p.tightest(bound, func(a, b int) bool { return a < b })
}

func (p premise) tightest(bound func(*js.Schema) *int, tighter func(a, b int) bool) *int {
	var tightest *int
	for _, s := range p.facts {
		if b := bound(s); b != nil && (tightest == nil || tighter(*b, *tightest)) {
			tightest = b
		}
	}
	return tightest
}

// elements is the greatest length that an array may have; nil is any.
func (p premise) elements() *int {
	most := p.most(func(s *js.Schema) *int { return s.MaxItems })
	for _, s := range p.facts {
		if r := rest(s); r != nil && forbids(r) {
			if n := len(leading(s)); most == nil || n < *most {
				most = &n
			}
		}
	}
	return most
}

// values are all values that there can be, when they can be counted.
func (p premise) values() ([]any, bool) {
	var values []any
	found := false
	for _, s := range p.facts {
		if list, ok := listed(s); ok && (!found || len(list) < len(values)) {
			values, found = list, true
		}
	}
	if !found {
		if p.kinds()&^countable != 0 {
			return nil, false
		}
		values = []any{nil, false, true}
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v any) bool {
		return kindOf(v)&p.mask == 0 ||
			slices.ContainsFunc(p.facts, func(s *js.Schema) bool { return s.Validate(v) != nil }) ||
			slices.ContainsFunc(p.nots, func(s *js.Schema) bool { return s.Validate(v) == nil })
	})
	return values, true
}

// A limit is a bound of numbers, which may itself be beyond it.
type limit struct {
	at   *big.Rat
	open bool
}

// lower and upper are the tightest bounds of a number; nil when there is none.
func (p premise) lower() *limit {
	var tightest *limit
	for _, s := range p.facts {
		for _, l := range []limit{{s.Minimum, false}, {s.ExclusiveMinimum, true}} {
			if l.at != nil && (tightest == nil || !l.below(*tightest)) {
				tightest = &l
			}
		}
	}
	if tightest != nil && p.kinds()&fraction == 0 {
		return tightest.integral(1)
	}
	return tightest
}

func (p premise) upper() *limit {
	var tightest *limit
	for _, s := range p.facts {
		for _, l := range []limit{{s.Maximum, false}, {s.ExclusiveMaximum, true}} {
			if l.at != nil && (tightest == nil || !l.above(*tightest)) {
				tightest = &l
			}
		}
	}
	if tightest != nil && p.kinds()&fraction == 0 {
		return tightest.integral(-1)
	}
	return tightest
}

// below says whether a lower bound lets through more than another, or the same.
func (l limit) below(other limit) bool {
	c := l.at.Cmp(other.at)
	return c < 0 || c == 0 && (!l.open || other.open)
}

// above says whether an upper bound lets through more than another, or the same.
func (l limit) above(other limit) bool {
	c := l.at.Cmp(other.at)
	return c > 0 || c == 0 && (!l.open || other.open)
}

// integral is the bound as integers have it: the first that it lets through, in
// the direction in which it does.
func (l limit) integral(direction int64) *limit {
	// The greatest integer that is not above the bound.
	floor := new(big.Int).Div(l.at.Num(), l.at.Denom())
	if l.at.IsInt() {
		if l.open {
			floor.Add(floor, big.NewInt(direction))
		}
	} else if direction > 0 {
		floor.Add(floor, big.NewInt(1))
	}
	return &limit{at: new(big.Rat).SetInt(floor)}
}
