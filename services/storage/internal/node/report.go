package node

import (
	"sync"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// report is what coordinators are told of a replica.
type report struct {
	Leads   bool
	Epoch   int32
	Damaged bool
}

// Report is a replica's report with its name.
type Report struct {
	Key     replica.Key
	Leads   bool
	Epoch   int32
	Damaged bool
}

// report returns the partition's current report. A sole replica leads as soon as
// it is placed: it can be written to at any time.
func (p *Partition) report() report {
	r := p.open.Load()
	if f := p.failure.Load(); f != nil && r == nil && !p.empty(f) {
		return report{Damaged: !f.ended}
	}
	if r != nil {
		view := r.View()
		return report{Leads: view.Serves || view.Sole, Epoch: int32(min(view.Term, 1<<31-1))}
	}
	return report{Leads: p.sole()}
}

func (p *Partition) sole() bool { return len(p.voters) == 1 && p.voters[0].ID == p.id }

// ownerReport tells subscribers when the report has changed.
func (p *Partition) ownerReport() {
	if now := p.report(); now != p.reported {
		p.reported = now
		p.node.reports.changed(p)
	}
}

// reports are the subscribers of a node's reports.
type reports struct {
	mu  sync.Mutex
	set map[*Subscription]struct{}
}

// Subscription collects the partitions whose reports have changed, each once, so
// that a slow reader costs no more than the partitions there are.
type Subscription struct {
	// C receives when something has changed.
	C       chan struct{}
	reports *reports
	changed map[*Partition]struct{}
}

// Subscribe begins to collect changes. Take all reports after it, not before.
func (n *Node) Subscribe() *Subscription {
	s := &Subscription{C: make(chan struct{}, 1), reports: &n.reports, changed: map[*Partition]struct{}{}}
	n.reports.mu.Lock()
	defer n.reports.mu.Unlock()
	if n.reports.set == nil {
		n.reports.set = map[*Subscription]struct{}{}
	}
	n.reports.set[s] = struct{}{}
	return s
}

// Take returns the current reports of what has changed since the last call.
func (s *Subscription) Take() []Report {
	s.reports.mu.Lock()
	changed := s.changed
	s.changed = map[*Partition]struct{}{}
	s.reports.mu.Unlock()
	reports := make([]Report, 0, len(changed))
	for p := range changed {
		// One that was removed meanwhile is not the node's any more.
		if held, err := p.node.Partition(p.key); err == nil && held == p {
			reports = append(reports, p.named())
		}
	}
	return reports
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	delete(s.reports.set, s)
}

func (s *reports) changed(p *Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subscription := range s.set {
		subscription.changed[p] = struct{}{}
		select {
		case subscription.C <- struct{}{}:
		default:
		}
	}
}

func (p *Partition) named() Report {
	r := p.report()
	return Report{Key: p.key, Leads: r.Leads, Epoch: r.Epoch, Damaged: r.Damaged}
}

// Reports returns the reports of all replicas.
func (n *Node) Reports() []Report {
	partitions := n.Partitions()
	reports := make([]Report, len(partitions))
	for i, p := range partitions {
		reports[i] = p.named()
	}
	return reports
}

// leaderHint names the leader of a view.
func (p *Partition) leaderHint(view *replica.View) *NotLeaderError {
	hint := &NotLeaderError{Epoch: int32(min(view.Term, 1<<31-1))}
	if view.Leader == 0 {
		return hint
	}
	for _, voter := range p.voters {
		if voter.ID == view.Leader {
			hint.Leader = voter.Node
		}
	}
	return hint
}
