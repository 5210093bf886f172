package backend

import (
	"fmt"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// State is what is the matter with a partition. The values are in answers and in
// labels of metrics and must not change.
type State string

// The states.
const (
	Sound State = ""
	// Damaged and Failed partitions serve nothing; Failed ones, whose disk refused
	// or which met a fault of the server, may come back by themselves.
	Damaged State = "damaged"
	Failed  State = "failed"
	// Unreachable: no node that has a replica answers.
	Unreachable State = "unreachable"
	// NoLeader: the nodes answer, and none of them leads just now.
	NoLeader State = "no_leader"
	// NoSpace: it is read, and takes no records.
	NoSpace State = "no_space"
)

// Condition is a state, in words too.
type Condition struct {
	State  State
	Reason string
}

// conditionOf tells the condition of a replica that has answered. Storage's words
// name no files.
func conditionOf(d *storagev1.DescribeResponse_PartitionDescription) Condition {
	switch e := d.GetError(); {
	case e == nil && d.GetRefusesAppends() == nil:
		return Condition{}
	case e == nil:
		return Condition{State: NoSpace, Reason: d.GetRefusesAppends().GetMessage()}
	case e.GetCode() == storagev1.ErrorCode_ERROR_CODE_DAMAGED:
		return Condition{State: Damaged, Reason: e.GetMessage()}
	case elsewhere(e):
		return noLeaderNow
	default:
		return Condition{State: Failed, Reason: e.GetMessage()}
	}
}

var noLeaderNow = Condition{State: NoLeader, Reason: "the partition has no leader just now"}

func unreachable(node string) Condition {
	return Condition{State: Unreachable, Reason: fmt.Sprintf("node %s does not answer", node)}
}
