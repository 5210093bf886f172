package backend

import (
	"context"

	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// A partitionCall is what every call to the leader of a partition has, and how it
// ended.
type partitionCall struct {
	partition int32
	route     route
	err       error
	// The attempt was refused without a trace and may be repeated.
	retry bool
}

func (c *partitionCall) base() *partitionCall { return c }

// callAll makes each call to the leader of its partition and returns when all have
// ended. Calls for one node go together. A call is repeated only when its attempt
// says so.
func callAll[C interface{ base() *partitionCall }](
	ctx context.Context, b *Backend, topic *picture.Topic, calls []C,
	attempt func(ctx context.Context, seen *picture.Picture, topic *picture.Topic, node string, calls []C),
) {
	chase := b.pursue()
	for pending := calls; ; {
		seen := b.watcher.Current()
		current := seen.TopicByID(topic.ID)
		if current == nil {
			// The caller has just looked the topic up, so it was deleted.
			for _, c := range pending {
				c.base().err = ErrTopicNotFound.WithMessage("topic %q does not exist", topic.Name)
			}
			return
		}
		byNode := make(map[string][]C)
		for _, c := range pending {
			node := c.base().route.next(current.Partitions[c.base().partition])
			byNode[node] = append(byNode[node], c)
		}
		callNodes(byNode, func(node string, calls []C) { attempt(ctx, seen, topic, node, calls) })

		var refused []C
		atOnce := true
		for _, c := range pending {
			if !c.base().retry {
				continue
			}
			refused = append(refused, c)
			atOnce = atOnce && c.base().route.atOnce()
		}
		if len(refused) == 0 {
			return
		}
		pending = refused
		if !atOnce && !chase.again(ctx, seen) {
			return
		}
	}
}

// callNodes makes one call to each node, side by side.
func callNodes[C any](byNode map[string][]C, call func(node string, calls []C)) {
	if len(byNode) == 1 {
		for node, calls := range byNode {
			call(node, calls)
		}
		return
	}
	var all confine.Fan
	for node, calls := range byNode {
		all.Do(func() { call(node, calls) })
	}
	all.Wait()
}
