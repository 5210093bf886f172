package cold

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/services/kit/blob"
)

var (
	// ErrUnavailable says that the store could not be reached, or not in time. The
	// same may be read later.
	ErrUnavailable = errors.New("cold storage is unavailable")

	// ErrPending says that what is asked for is on its way, and was not waited for.
	ErrPending = fmt.Errorf("%w: it is on its way", ErrUnavailable)

	// ErrDamaged marks an object that is not what was uploaded. Nothing of it is
	// served.
	ErrDamaged = errors.New("an object in cold storage is damaged")

	// ErrLost marks an object that is not there.
	ErrLost = fmt.Errorf("%w: it is gone", ErrDamaged)
)

// storeFailed gives a failure of the store its kind.
func storeFailed(name string, err error) error {
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return fmt.Errorf("%w: %s", ErrLost, name)
	case errors.Is(err, io.EOF):
		return damaged(name, "it is too short")
	default:
		return fmt.Errorf("%w: read %s: %w", ErrUnavailable, name, err)
	}
}

func damaged(name, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrDamaged, name, fmt.Sprintf(format, args...))
}

// waited is the error of a caller who gave up.
func waited(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
}
