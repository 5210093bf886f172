package view

import (
	"slices"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// leaders is who leads the partitions of one topic. Each node claims for its
// own replicas; of several that claim to lead, the one with the highest epoch
// does: the others have been deposed and do not know it yet.
type leaders struct {
	// claims are by node; lists are by partition.
	claims map[string][]claim
	leads  []leader
}

// claim is what a node last said about its replica of a partition.
type claim struct {
	epoch int32
	leads bool
}

type leader struct {
	// node is empty while nobody leads.
	node string
	// epoch is that of the leader, or the highest that was heard of; -1 when
	// none was.
	epoch int32
}

// all returns the numbers of all partitions that something is known of.
func (l *leaders) all() []int32 {
	if l == nil {
		return nil
	}
	all := make([]int32, len(l.leads))
	for p := range all {
		all[p] = int32(p)
	}
	return all
}

// settle finds the leader of a partition anew and reports whether it changed.
func (l *leaders) settle(p int32) bool {
	for int(p) >= len(l.leads) {
		l.leads = append(l.leads, leader{epoch: -1})
	}
	now := leader{epoch: -1}
	for node, claims := range l.claims {
		if int(p) >= len(claims) {
			continue
		}
		switch c := claims[p]; {
		case c.leads && (now.node == "" || c.epoch > now.epoch):
			now = leader{node: node, epoch: c.epoch}
		case !c.leads && now.node == "":
			now.epoch = max(now.epoch, c.epoch)
		}
	}
	changed := l.leads[p] != now
	l.leads[p] = now
	return changed
}

// Leader returns the node that leads a partition and its epoch; "" when none is
// known.
func (v *View) Leader(id rows.TopicID, partition int32) (node string, epoch int32) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	l := v.mu.leaders[id]
	if l == nil || partition < 0 || int(partition) >= len(l.leads) {
		return "", -1
	}
	return l.leads[partition].node, l.leads[partition].epoch
}

// Reporter brings one node's reports into the picture, for one stream of them.
type Reporter struct {
	view *View
	node string
	// snapshot gathers reports until the first ones are complete, so that what
	// is known of the node is replaced at once; nil afterwards.
	snapshot map[rows.TopicID][]claim
}

// Reporter begins a stream of a node's reports.
func (v *View) Reporter(node string) *Reporter {
	return &Reporter{view: v, node: node, snapshot: make(map[rows.TopicID][]claim)}
}

// Report takes a message of the stream.
func (r *Reporter) Report(m *storagev1.WatchReplicasResponse) {
	if r.snapshot != nil {
		for _, t := range m.Topics {
			if id, ok := rows.ParseTopicID(t.TopicId); ok {
				r.snapshot[id], _ = claimed(r.snapshot[id], t)
			}
		}
		if m.SnapshotDone {
			r.view.replaceReports(r.node, r.snapshot)
			r.snapshot = nil
		}
		return
	}
	r.view.updateReports(r.node, m)
}

// claimed returns claims with a report in it, and the partitions of the report.
func claimed(claims []claim, t *storagev1.WatchReplicasResponse_TopicReport) ([]claim, []int32) {
	touched := make([]int32, 0, len(t.Partitions))
	for i, p := range t.Partitions {
		// Bytes of another process: lists may differ in length, numbers be wild.
		if p < 0 || p >= meta.MaxPartitions || i >= len(t.Leads) {
			continue
		}
		for int(p) >= len(claims) {
			claims = append(claims, claim{epoch: -1})
		}
		c := claim{epoch: -1, leads: t.Leads[i]}
		if i < len(t.Epochs) {
			c.epoch = t.Epochs[i]
		}
		if i < len(t.Damaged) && t.Damaged[i] {
			c.leads = false
		}
		claims[p] = c
		touched = append(touched, p)
	}
	return claims, touched
}

func (v *View) replaceReports(node string, fresh map[rows.TopicID][]claim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, live := v.mu.nodes[node]; !live {
		return
	}
	v.dropReportsLocked(node, fresh)
	for id, claims := range fresh {
		v.claimLocked(id, node, claims, seq(len(claims)))
	}
}

func (v *View) updateReports(node string, m *storagev1.WatchReplicasResponse) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, live := v.mu.nodes[node]; !live {
		return
	}
	for _, t := range m.Topics {
		id, ok := rows.ParseTopicID(t.TopicId)
		if !ok {
			continue
		}
		var before []claim
		if l := v.mu.leaders[id]; l != nil {
			before = l.claims[node]
		}
		claims, touched := claimed(before, t)
		v.claimLocked(id, node, claims, touched)
	}
}

// claimLocked sets a node's claims on a topic, of which touched have changed.
func (v *View) claimLocked(id rows.TopicID, node string, claims []claim, touched []int32) {
	if _, deleting := v.mu.deleting[id]; deleting {
		return
	}
	l := v.mu.leaders[id]
	if l == nil {
		l = &leaders{claims: make(map[string][]claim)}
		v.mu.leaders[id] = l
	}
	if len(claims) == 0 {
		delete(l.claims, node)
	} else {
		l.claims[node] = claims
	}
	v.settleLocked(id, l, touched)
}

func (v *View) settleLocked(id rows.TopicID, l *leaders, touched []int32) {
	changed := slices.DeleteFunc(touched, func(p int32) bool { return !l.settle(p) })
	if len(changed) > 0 {
		v.changedLocked(change{kind: leadersChanged, topic: id, partitions: changed})
	}
}

// dropReportsLocked forgets what a node claimed, but for topics about which it
// has said something new.
func (v *View) dropReportsLocked(node string, except ...map[rows.TopicID][]claim) {
	for id, l := range v.mu.leaders {
		claims, ok := l.claims[node]
		if !ok {
			continue
		}
		if len(except) > 0 {
			if fresh, kept := except[0][id]; kept && len(fresh) >= len(claims) {
				continue
			}
		}
		delete(l.claims, node)
		v.settleLocked(id, l, seq(len(claims)))
		if len(l.claims) == 0 && v.mu.byID[id] == nil {
			delete(v.mu.leaders, id)
		}
	}
}

// seq returns 0 to n-1.
func seq(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}
