package segment

import (
	"errors"
	"fmt"
	"sync"
)

// ErrCorrupt marks bytes within a segment that are not the batches they should
// be.
var ErrCorrupt = errors.New("corrupt segment")

func corrupt(position int64) error {
	return fmt.Errorf("%w: no whole batch at %d", ErrCorrupt, position)
}

// A walk mostly covers the bytes between two index entries.
const walkBuffer = 8 << 10

var walkBuffers = sync.Pool{New: func() any { return new([walkBuffer]byte) }}
