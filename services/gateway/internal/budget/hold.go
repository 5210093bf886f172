package budget

import "context"

// A Hold is what one request has taken of a budget. The zero value is of none, and
// may only be released. It is used by one goroutine at a time.
type Hold struct {
	budget *Budget
	// 0 <= taken <= budget.cfg.Whole
	taken int64
}

// Hold returns a hold that has taken nothing yet.
func (b *Budget) Hold() Hold { return Hold{budget: b} }

// Taken returns how many bytes are taken.
func (h *Hold) Taken() int64 { return h.taken }

// Grow takes from the budget until so many bytes are taken, or all that there are.
func (h *Hold) Grow(ctx context.Context, to int64) error {
	to = min(to, h.budget.cfg.Whole)
	if more := to - h.taken; more > 0 {
		if err := h.budget.acquire(ctx, more); err != nil {
			return err
		}
		h.taken = to
	}
	return nil
}

// TryGrow is Grow without waiting; it says whether the bytes are taken.
func (h *Hold) TryGrow(to int64) bool {
	to = min(to, h.budget.cfg.Whole)
	if more := to - h.taken; more > 0 {
		if !h.budget.tryAcquire(more) {
			return false
		}
		h.taken = to
	}
	return true
}

// Shrink gives back all but so many bytes.
func (h *Hold) Shrink(to int64) {
	if h.taken > to {
		h.budget.release(h.taken - to)
		h.taken = to
	}
}

// Release gives back all.
func (h *Hold) Release() { h.Shrink(0) }
