package jsonschema

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxSteps is how much work a comparison may be: the ways of a schema multiply.
	maxSteps = 100_000
	// maxPath is how deep into documents a comparison goes.
	maxPath = 100
	// maxFound is how many faults are gathered.
	maxFound = 20
)

// Compare returns what stands against reading with a schema what was written with
// another one. Word, "new" or "old", says which of them the reading one is.
func Compare(written, reading *Schema, word string) []string {
	c := &comparison{
		word:  word,
		ids:   make(map[*js.Schema]uint32),
		memo:  make(map[string]bool),
		equal: make(map[pair]bool),
		open:  make(map[string]claim),
		low:   math.MaxInt,
	}
	before, after := []*js.Schema{written.root}, []*js.Schema{reading.root}
	if !c.implies(known(before, before), reading.root, nil, false) && len(c.faults) == 0 {
		c.fault(nil, "cannot be shown to accept what was written with the other")
	}
	removal{c, make(map[string]bool)}.look(before, after, nil)
	return c.faults
}

// comparison is a proof under way.
type comparison struct {
	word  string
	steps int
	ids   map[*js.Schema]uint32
	// What was shown, and what could not be.
	memo map[string]bool
	// Which schemas are the same.
	equal map[pair]bool
	// What is being shown. A claim that comes up again deeper in the document
	// holds: documents end, so its proof is one by induction.
	open map[string]claim
	// The lowest index of an open claim that was relied on since low was set.
	low    int
	faults []string
}

type claim struct{ depth, index int }

// path is the way into a document: names of properties, and "[]".
type path []string

func (p path) in(step string) path { return append(slices.Clip(p), step) }

func (p path) String() string {
	var out []byte
	for i, step := range p {
		if i > 0 && !strings.HasPrefix(step, "[") {
			out = append(out, '.')
		}
		out = append(out, step...)
	}
	return string(out)
}

// fault notes what stands against the schema. It returns false.
func (c *comparison) fault(at path, format string, args ...any) bool {
	text := c.word + " schema " + fmt.Sprintf(format, args...)
	if len(at) > 0 {
		text += fmt.Sprintf(" at '%s'", at)
	}
	if len(c.faults) < maxFound && !slices.Contains(c.faults, text) {
		c.faults = append(c.faults, text)
	}
	return false
}

// among says whether a schema is the same as one of some.
func (c *comparison) among(schemas []*js.Schema, one *js.Schema) bool {
	return slices.ContainsFunc(schemas, func(s *js.Schema) bool {
		p := pair{s, one}
		equal, known := c.equal[p]
		if !known {
			equal = same(s, one)
			c.equal[p] = equal
		}
		return equal
	})
}

// key tells claims apart.
func (c *comparison) key(p premise, goal *js.Schema) string {
	key := []byte{byte(p.mask)}
	id := func(s *js.Schema) {
		if _, ok := c.ids[s]; !ok {
			c.ids[s] = uint32(len(c.ids))
		}
		key = binary.BigEndian.AppendUint32(key, c.ids[s])
	}
	end := func() { key = binary.BigEndian.AppendUint32(key, math.MaxUint32) }
	for _, list := range [][]*js.Schema{{goal}, p.facts, p.nots, p.roots} {
		for _, s := range list {
			id(s)
		}
		end()
	}
	for _, s := range p.splits {
		for _, w := range s {
			for _, list := range [][]*js.Schema{w.facts, w.nots} {
				for _, s := range list {
					id(s)
				}
				end()
			}
		}
		end()
	}
	return string(key)
}

// implies shows that every value of a premise is valid under a schema. When it
// cannot, it notes faults, unless it is to be quiet.
func (c *comparison) implies(p premise, goal *js.Schema, at path, quiet bool) bool {
	key := c.key(p, goal)
	if shown, ok := c.memo[key]; ok && (shown || quiet) {
		return shown
	}
	if before, ok := c.open[key]; ok {
		if len(at) > before.depth {
			c.low = min(c.low, before.index)
			return true
		}
		return false
	}
	if c.steps++; c.steps > maxSteps || len(at) > maxPath {
		if !quiet {
			c.fault(at, "is too large to be compared")
		}
		return false
	}
	index, outer := len(c.open), c.low
	c.open[key] = claim{len(at), index}
	c.low = math.MaxInt
	shown := c.show(p, goal, at, quiet)
	delete(c.open, key)
	// What relies on an open claim holds only if that does.
	if !shown || c.low >= index {
		c.memo[key] = shown
		c.low = math.MaxInt
	}
	c.low = min(c.low, outer)
	return shown
}

func (c *comparison) show(p premise, goal *js.Schema, at path, quiet bool) bool {
	k := p.kinds()
	if k == 0 || trivial(goal) || c.among(p.facts, goal) {
		return true
	}
	if values, ok := p.values(); ok {
		return c.valid(values, goal, at, quiet)
	}
	if c.keywords(p, goal, at, true) {
		return true
	}
	if len(p.splits) > 0 {
		for _, w := range p.splits[0] {
			if !c.implies(p.taking(w), goal, at, quiet) {
				return false
			}
		}
		return true
	}
	if !k.single() && divides(goal) {
		all := true
		for _, one := range k.each() {
			all = c.implies(p.only(one), goal, at, true) && all
		}
		if all {
			return true
		}
	}
	return !quiet && c.keywords(p, goal, at, false)
}

// divides says whether values of different kinds may be valid for different
// reasons.
func divides(s *js.Schema) bool {
	return slices.ContainsFunc(conjuncts(s), func(s *js.Schema) bool {
		return len(s.AnyOf) > 0 || len(s.OneOf) > 0 || s.Not != nil || s.If != nil
	})
}

// conjuncts are the schemas that must all hold for a schema to hold.
func conjuncts(s *js.Schema) []*js.Schema {
	all := []*js.Schema{s}
	for i := 0; i < len(all); i++ {
		for _, next := range append(slices.Clone(all[i].AllOf), all[i].Ref) {
			if next != nil && !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// valid says whether all of some values are valid.
func (c *comparison) valid(values []any, goal *js.Schema, at path, quiet bool) bool {
	c.steps += len(values)
	ok := true
	for _, v := range values {
		if goal.Validate(v) == nil {
			continue
		}
		if ok = false; quiet {
			return false
		}
		c.fault(at, "no longer allows the value %s", shorten(v))
	}
	return ok
}

// keywords shows each keyword of a schema from a premise as it stands.
func (c *comparison) keywords(p premise, goal *js.Schema, at path, quiet bool) bool {
	k := p.kinds()
	all := true
	for _, g := range conjuncts(goal) {
		for _, rule := range rules {
			if k&rule.kinds == 0 {
				continue
			}
			if !rule.show(&proof{c, p, at, quiet}, g) {
				if all = false; quiet {
					return false
				}
			}
		}
	}
	return all
}

// A rule shows one keyword, or some that belong together, for values of some
// kinds.
type rule struct {
	kinds kinds
	show  func(*proof, *js.Schema) bool
}

// A proof is what a rule works with.
type proof struct {
	*comparison
	p     premise
	at    path
	quiet bool
}

// refuse notes a fault. It returns false.
func (f *proof) refuse(format string, args ...any) bool {
	if !f.quiet {
		f.fault(f.at, format, args...)
	}
	return false
}

// follows shows a schema for the same value.
func (f *proof) follows(goal *js.Schema) bool {
	return f.implies(f.p, goal, f.at, true)
}

// part shows a schema for a part of the value of which some schemas are known, out
// of all at its place.
func (f *proof) part(facts, roots []*js.Schema, goal *js.Schema, step string, quiet bool) bool {
	return f.implies(known(facts, roots), goal, f.at.in(step), quiet)
}
