package raftlog

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

var (
	// ErrDamaged marks bytes that were durable once and are wrong or missing
	// now. A replica that meets it must not vote, lead or answer.
	ErrDamaged = errors.New("damaged")

	// ErrFailed marks a log that an I/O error has poisoned: what is in memory
	// may differ from what is on disk, so its owner can do no more with it. What
	// was durable before can still be read. Opening anew recovers, unless the
	// error is ErrSyncFailed too.
	ErrFailed = errors.New("log failed")

	// ErrSyncFailed is an ErrFailed whose cause was a sync. The page cache may
	// show what the disk never got, so neither a retry nor opening anew can be
	// trusted while the machine runs.
	ErrSyncFailed = fmt.Errorf("%w at a sync", ErrFailed)

	// ErrInvalid marks a call that the log refused before it did anything.
	ErrInvalid = errors.New("invalid write")

	// ErrOffsetOutOfRange is what Read returns below the first offset held and
	// past the end.
	ErrOffsetOutOfRange = errors.New("offset out of range")

	// ErrClosed is what a closed log returns.
	ErrClosed = errors.New("log closed")

	// ErrVersion marks files of a newer version of the format.
	ErrVersion = journal.ErrVersion
)

// asDamage marks what the lower packages call damage.
func asDamage(err error) error {
	if errors.Is(err, ErrDamaged) {
		return err
	}
	if errors.Is(err, segment.ErrCorrupt) || errors.Is(err, journal.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
