package assign

// settleBudget bounds the work of settle, in edges looked at: about 0.1 s. What
// is left then is even all the same, and may move more than it must; only large
// groups whose members subscribe to many different sets of topics come near it.
const settleBudget = 4_000_000

// settle cancels cycles of negative cost in the flow that the assignment is
// until there is none, which is when its cost is the least. After level a cycle
// leaves the sizes as they are, or swaps two, and moves fewer partitions.
func (p *problem) settle() {
	r := newResidual(p)
	for budget := settleBudget; budget > 0; {
		cycle, looked := r.negativeCycle(budget)
		if cycle == nil {
			return
		}
		budget -= looked
		for _, e := range cycle {
			r.push(e)
		}
	}
}

// residual is what can be changed in the flow. Its nodes are the members, then
// the topics, then the source.
type residual struct {
	p      *problem
	source int
	// even is what evenness weighs: more than all moves of a cycle.
	even int
	// dist and into are the lengths of the shortest ways found and the last edge
	// of each.
	dist []int
	into []edge
	// walk marks nodes while cycles are looked for.
	walk []int
}

// edge is one change of the flow: a member more or less at the source, when
// topic is -1, or a partition more or less of a topic at a subscriber.
type edge struct {
	from, to   int
	topic, sub int
	by         int
}

func newResidual(p *problem) *residual {
	n := len(p.load) + len(p.topics) + 1
	return &residual{
		p: p, source: n - 1, even: len(p.topics) + 2,
		dist: make([]int, n), into: make([]edge, n), walk: make([]int, n),
	}
}

// push makes a change.
func (r *residual) push(e edge) {
	if e.topic < 0 {
		if e.from == r.source {
			r.p.load[e.to] += e.by
		} else {
			r.p.load[e.from] += e.by
		}
		return
	}
	r.p.topics[e.topic].subs[e.sub].have += e.by
}

// negativeCycle returns a cycle of negative cost, nil when there is none or the
// budget is used up, and how many edges it looked at (Bellman and Ford).
func (r *residual) negativeCycle(budget int) (cycle []edge, looked int) {
	clear(r.dist)
	for i := range r.into {
		r.into[i] = edge{from: -1}
	}
	for looked < budget {
		n, changed := r.round()
		looked += n
		if !changed {
			return nil, looked
		}
		if cycle := r.cycle(); cycle != nil {
			return cycle, looked
		}
	}
	return nil, looked
}

// round relaxes every edge once.
func (r *residual) round() (looked int, changed bool) {
	relax := func(cost int, e edge) {
		looked++
		if d := r.dist[e.from] + cost; d < r.dist[e.to] {
			r.dist[e.to], r.into[e.to] = d, e
			changed = true
		}
	}
	for t := range r.p.topics {
		node := len(r.p.load) + t
		for s, sub := range r.p.topics[t].subs {
			// One more costs a move unless the member had it.
			cost := 0
			if sub.have >= sub.had {
				cost = 1
			}
			relax(cost, edge{from: sub.member, to: node, topic: t, sub: s, by: 1})
		}
		for s, sub := range r.p.topics[t].subs {
			if sub.have == 0 {
				continue
			}
			cost := 0
			if sub.have > sub.had {
				cost = -1
			}
			relax(cost, edge{from: node, to: sub.member, topic: t, sub: s, by: -1})
		}
	}
	for m, load := range r.p.load {
		if load > 0 {
			relax(-r.even*(2*load-1), edge{from: m, to: r.source, topic: -1, by: -1})
		}
	}
	for m, load := range r.p.load {
		relax(r.even*(2*load+1), edge{from: r.source, to: m, topic: -1, by: 1})
	}
	return looked, changed
}

// cycle returns a cycle of last edges, or nil. Such a one has a negative cost.
func (r *residual) cycle() []edge {
	clear(r.walk)
	for start := range r.into {
		at := start
		for at >= 0 && r.walk[at] == 0 {
			r.walk[at] = start + 1
			at = r.into[at].from
		}
		if at < 0 || r.walk[at] != start+1 {
			continue
		}
		var cycle []edge
		for n := at; len(cycle) == 0 || n != at; n = r.into[n].from {
			cycle = append(cycle, r.into[n])
		}
		return cycle
	}
	return nil
}
