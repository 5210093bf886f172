package memfs

import "math/rand/v2"

// content is the bytes of a file, as everybody sees them and as they are on
// disk.
type content struct {
	visible, durable []byte
	// pending leads from durable to visible, oldest first.
	pending []change
}

// change is a write, or a truncation, which writes zeros over what it cuts.
// It never changes once it is made, so clones share it.
type change struct {
	off  int64
	data []byte // nil: zeros
	n    int64  // bytes written, len(data) unless zeros
	size int64  // of the file afterwards
}

func (c *content) write(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	end := off + int64(len(b))
	c.do(change{off: off, data: append([]byte(nil), b...), n: int64(len(b)), size: max(end, int64(len(c.visible)))})
}

func (c *content) truncate(size int64) {
	old := int64(len(c.visible))
	if size == old {
		return
	}
	c.do(change{off: size, n: max(0, old-size), size: size})
}

func (c *content) do(ch change) {
	c.visible = ch.apply(c.visible)
	c.pending = append(c.pending, ch)
}

// sync makes all that was written durable.
func (c *content) sync() {
	for _, ch := range c.pending {
		c.durable = ch.apply(c.durable)
	}
	c.pending = nil
}

// apply returns b after the change; it may reuse b.
func (ch change) apply(b []byte) []byte {
	b = resize(b, max(ch.size, ch.off+ch.n))
	ch.put(b, ch.off, ch.off+ch.n)
	return b[:ch.size]
}

// put writes the part of the change that lies in [from, to) into b, a whole
// file.
func (ch change) put(b []byte, from, to int64) {
	from, to = max(from, ch.off), min(to, ch.off+ch.n)
	if from >= to {
		return
	}
	if ch.data == nil {
		clear(b[from:to])
		return
	}
	copy(b[from:to], ch.data[from-ch.off:to-ch.off])
}

// resize cuts or extends b. What it extends by is zeros: a truncation cleared
// what it cut, so nothing old hides in the capacity.
func resize(b []byte, size int64) []byte {
	if size <= int64(cap(b)) {
		return b[:size]
	}
	grown := make([]byte, size, size+size/4)
	copy(grown, b)
	return grown
}

func (c *content) clone() content {
	return content{
		visible: append([]byte(nil), c.visible...),
		durable: append([]byte(nil), c.durable...),
		pending: append([]change(nil), c.pending...),
	}
}

// What a disk writes whole: sectors, and pages where the kernel and the disk
// are kind.
var units = [...]int64{512, 4096}

// crash leaves what a power cut leaves. Each unit of the file goes on its own
// way through the changes that touched it and stops at one of them, and so does
// the size.
func (c *content) crash(rng *rand.Rand) {
	if rng != nil && len(c.pending) > 0 {
		c.tear(units[rng.IntN(len(units))], survivor{rng: rng, chance: chances[rng.IntN(len(chances))]})
	}
	c.pending = nil
	c.visible = append([]byte(nil), c.durable...)
}

func (c *content) tear(unit int64, s survivor) {
	largest := int64(len(c.durable))
	sizes := []int64{largest}
	touched := map[int64][]change{}
	first, last := int64(-1), int64(-1)
	for _, ch := range c.pending {
		sizes = append(sizes, ch.size)
		largest = max(largest, ch.size, ch.off+ch.n)
		for u := ch.off / unit; u*unit < ch.off+ch.n; u++ {
			touched[u] = append(touched[u], ch)
			if first < 0 || u < first {
				first = u
			}
			last = max(last, u)
		}
	}
	b := make([]byte, largest)
	copy(b, c.durable)
	for u := first; u >= 0 && u <= last; u++ { // in order, so that a seed repeats
		for _, ch := range touched[u][:s.prefix(len(touched[u]))] {
			ch.put(b, u*unit, (u+1)*unit)
		}
	}
	c.durable = b[:sizes[s.prefix(len(sizes)-1)]:len(b)]
	clear(b[len(c.durable):])
}
