package memfs

import "math/rand/v2"

// chances are how much of the unsynced survives, drawn for each file and for
// the folders: all and nothing are the likeliest histories, and what lies
// between tears.
var chances = [...]float64{0, 0.1, 0.5, 0.9, 1}

// survivor decides what a power cut leaves.
type survivor struct {
	rng    *rand.Rand
	chance float64
}

func (s survivor) one() bool { return s.rng.Float64() < s.chance }

// prefix says how many of n changes of one thing survive: the newer ones build
// on the older.
func (s survivor) prefix(n int) int {
	if n == 0 || s.one() {
		return n
	}
	return s.rng.IntN(n)
}

// crash turns a file system that nobody else has into what a power cut leaves
// of it.
func (f *FS) crash(rng *rand.Rand) {
	if rng != nil {
		s := survivor{rng: rng, chance: chances[rng.IntN(len(chances))]}
		chosen := make([]bool, len(f.links))
		for i := range chosen {
			chosen[i] = s.one()
		}
		f.persistLinksLocked(chosen)
	}
	f.links = nil
	f.root.crash(rng)
}

// crash makes the durable state the visible one, here and below.
func (n *node) crash(rng *rand.Rand) {
	if !n.dir {
		n.content.crash(rng)
		return
	}
	n.entries = make(map[string]*node, len(n.durable))
	for _, name := range sortedNames(n.durable) { // in order, so that a seed repeats
		child := n.durable[name]
		n.entries[name] = child
		child.crash(rng)
	}
}

// cloneLocked copies everything but what is open and locked.
func (f *FS) cloneLocked() *FS {
	copies := cloner{}
	after := &FS{root: copies.node(f.root)}
	for _, l := range f.links {
		after.links = append(after.links, link{from: copies.slot(l.from), to: copies.slot(l.to), node: copies.node(l.node)})
	}
	return after
}

// cloner remembers the copy of each node: visible entries, durable entries and
// pending links refer to the same ones.
type cloner map[*node]*node

func (c cloner) slot(s slot) slot {
	if s.dir == nil {
		return slot{}
	}
	return slot{dir: c.node(s.dir), name: s.name}
}

func (c cloner) node(n *node) *node {
	if copied := c[n]; copied != nil {
		return copied
	}
	if !n.dir {
		c[n] = &node{content: n.content.clone(), modified: n.modified}
		return c[n]
	}
	copied := newDir()
	c[n] = copied
	for name, child := range n.entries {
		copied.entries[name] = c.node(child)
	}
	for name, child := range n.durable {
		copied.durable[name] = c.node(child)
	}
	return copied
}
