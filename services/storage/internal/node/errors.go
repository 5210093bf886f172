package node

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

var (
	// ErrUnknownPartition is a partition of which the node holds no replica.
	ErrUnknownPartition = errors.New("this node holds no replica of the partition")

	// ErrDamaged marks a replica whose files are damaged. It serves nothing until
	// an operator has looked.
	ErrDamaged = errors.New("the replica is damaged")

	// ErrDisk marks a replica whose disk refused a read or a write; disk.go has the
	// kinds of it.
	ErrDisk = errors.New("the disk failed")

	// ErrOverloaded refuses an append because too many bytes wait already.
	// Nothing was appended.
	ErrOverloaded = errors.New("too many bytes wait to be written")

	// ErrOffsetOutOfRange is an offset below the start or above the end.
	ErrOffsetOutOfRange = errors.New("offset out of range")

	// ErrReplicas refuses a placement that this version cannot hold.
	ErrReplicas = errors.New("only one replica of a partition is supported in this version")

	// ErrStopping answers what comes to a node that stops.
	ErrStopping = errors.New("the node is stopping")
)

// RemovedError refuses to place topics that the node was told to remove.
type RemovedError struct{ Topics []uuid.UUID }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("%d topics were removed from this node before, %s the first", len(e.Topics), e.Topics[0])
}

// NotLeaderError refuses a call at a replica that does not lead.
type NotLeaderError struct {
	// Leader is the leading node's id, "" when unknown; Epoch its term.
	Leader string
	Epoch  int32
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "the partition has no leader just now"
	}
	return fmt.Sprintf("the partition is led by node %s in epoch %d", e.Leader, e.Epoch)
}

// EpochError refuses a call whose leader epoch is not the replica's (KIP-320).
type EpochError struct{ Asked, Current int32 }

func (e *EpochError) Error() string {
	if e.Asked < e.Current {
		return fmt.Sprintf("leader epoch %d is older than the current %d", e.Asked, e.Current)
	}
	return fmt.Sprintf("leader epoch %d is newer than the current %d", e.Asked, e.Current)
}
