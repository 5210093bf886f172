package raftlog

import (
	"errors"
	"fmt"
)

var (
	// ErrDamaged marks bytes that were durable once and are wrong or missing
	// now. A replica that meets it must not vote, lead or answer.
	ErrDamaged = errors.New("damaged")

	// ErrFailed marks a log that an I/O error has poisoned: what is in memory
	// may differ from what is on disk, so it takes no more writes. Opening
	// anew recovers, unless the error is ErrSyncFailed too.
	ErrFailed = errors.New("log failed")

	// ErrSyncFailed is an ErrFailed whose cause was a sync. The page cache may
	// show what the disk never got, so neither a retry nor opening anew in the
	// same machine's lifetime can be trusted.
	ErrSyncFailed = fmt.Errorf("%w: sync", ErrFailed)

	// ErrOffsetOutOfRange is what Read returns below the first offset held and
	// past the end.
	ErrOffsetOutOfRange = errors.New("offset out of range")

	// ErrClosed is what a closed log returns.
	ErrClosed = errors.New("log closed")

	// ErrVersion marks files of a newer version of the format.
	ErrVersion = errors.New("written by a newer version")
)
