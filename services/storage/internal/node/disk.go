package node

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// What disks refuse with, as far as it can be told. Each is an ErrDisk.
var (
	// ErrNoSpace: the file system is full (ENOSPC), or so nearly that the rest is
	// kept for what must go on.
	ErrNoSpace = fmt.Errorf("%w: no space left", ErrDisk)

	// ErrQuota: the user's or the project's quota is used up (EDQUOT).
	ErrQuota = fmt.Errorf("%w: its quota is used up", ErrDisk)

	// ErrReadOnly: the file system takes no writes at all (EROFS), as after an error
	// that the kernel has met.
	ErrReadOnly = fmt.Errorf("%w: it is read-only", ErrDisk)

	// ErrIO: the device could not read or write (EIO).
	ErrIO = fmt.Errorf("%w: I/O error", ErrDisk)
)

// diskFaults tells the kinds of ErrDisk by what the system calls return, and what
// callers are told of each. The first match counts.
var diskFaults = []struct {
	cause, fault error
	told         string
}{
	{syscall.ENOSPC, ErrNoSpace, "no space left on the disk of node %s"},
	{syscall.EDQUOT, ErrQuota, "the quota on the disk of node %s is used up"},
	{syscall.EROFS, ErrReadOnly, "the disk of node %s is read-only"},
	{syscall.EIO, ErrIO, "the disk of node %s reported an I/O error"},
}

// What callers are told of all else.
const (
	toldDamage = "the replica on node %s is damaged"
	toldPanic  = "a fault of the server on node %s; the partition is opened anew in a moment"
	toldOther  = "the disk of node %s failed"
)

// diskFailure gives what a log returned its kind.
func diskFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raftlog.ErrDamaged):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, kind := range diskFaults {
		if errors.Is(err, kind.cause) {
			return fmt.Errorf("%w: %w", kind.fault, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrDisk, err)
}

// outOfSpace tells the failures of which only writes are the victims: what is on
// the disk is there and can be read.
func outOfSpace(err error) bool { return errors.Is(err, ErrNoSpace) || errors.Is(err, ErrQuota) }

// FailureError is why a replica serves nothing, or takes no appends.
type FailureError struct {
	// Node is the node that holds the replica.
	Node string
	// Err names files; it is for the node's log.
	Err error
}

func (e *FailureError) Error() string { return fmt.Sprintf("node %s: %v", e.Node, e.Err) }

func (e *FailureError) Unwrap() error { return e.Err }

// Told is what callers may know of it: whose fault it is, and no file.
func (e *FailureError) Told() string {
	return fmt.Sprintf(e.told(), e.Node)
}

func (e *FailureError) told() string {
	switch {
	case errors.Is(e.Err, ErrDamaged):
		return toldDamage
	case errors.Is(e.Err, errPanic):
		return toldPanic
	}
	for _, kind := range diskFaults {
		if errors.Is(e.Err, kind.fault) {
			return kind.told
		}
	}
	return toldOther
}
