package backend

import (
	"context"
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/backoff"
)

// A route is the way to the leader of one partition, over several attempts.
type route struct {
	// Where the last answer sent us on to; empty when it named nobody.
	hint string
	// How many nodes have been asked.
	attempts int
}

// next returns the node to ask: whom the last answer named, else the leader in
// the picture, else one replica after the other. A partition that was never
// written to has no leader, and its first replica makes one of itself.
func (r *route) next(p picture.Partition) string {
	node := r.hint
	if node == "" {
		node = p.Leader
	}
	if node == "" || r.attempts > 1 && r.hint == "" {
		// The picture may be behind for longer than one attempt.
		node = p.Replicas[r.attempts%len(p.Replicas)]
	}
	r.hint = ""
	r.attempts++
	return node
}

// refused takes whom a refusal names as the leader.
func (r *route) refused(e *storagev1.PartitionError) {
	r.hint = e.GetLeader().GetNode()
}

// atOnce says whether the next attempt need not wait: it goes to somebody whom
// the first answer named.
func (r *route) atOnce() bool {
	return r.hint != "" && r.attempts == 1
}

// A pursuit spaces out the attempts to reach leaders.
type pursuit struct {
	deadline time.Time
	wait     *backoff.Backoff
}

func (b *Backend) pursue() *pursuit {
	return &pursuit{
		deadline: time.Now().Add(b.limits.Patience),
		wait:     backoff.New(backoff.Policy{Initial: 5 * time.Millisecond, Max: 200 * time.Millisecond}),
	}
}

// again waits for the next attempt: for a moment, or until the picture is not
// the given one anymore. It reports whether there is one.
func (u *pursuit) again(ctx context.Context, seen *picture.Picture) bool {
	left := time.Until(u.deadline)
	if left <= 0 {
		return false
	}
	timer := time.NewTimer(min(u.wait.Next(), left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-seen.Superseded():
		return true
	case <-ctx.Done():
		return false
	}
}
