package node

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Prepare tells which of some records of a wide producer are new. A partition that
// was never written to gets its folder, since an append is about to follow.
func (p *Partition) Prepare(ctx context.Context, producerID int64, sequences []int64) (replica.Prepared, error) {
	done := make(chan replica.Prepared, 1)
	p.do(task{creates: true, lost: func(err error) {
		select {
		case done <- replica.Prepared{Err: err}:
		default: // it was answered
		}
	}, run: func(r *replica.Replica, err error) {
		if err == nil {
			err = p.ownerElect(r)
		}
		if err != nil {
			done <- replica.Prepared{Err: err}
			return
		}
		p.node.awake.touch(p)
		r.Prepare(&replica.Preparation{
			Producer: producerID, Sequences: sequences,
			Done: func(prepared replica.Prepared) { done <- prepared },
		})
	}}, false)
	select {
	case prepared := <-done:
		return prepared, p.translate(prepared.Err)
	case <-ctx.Done():
		return replica.Prepared{}, fmt.Errorf("%w: %w", replica.ErrNotReady, context.Cause(ctx))
	}
}

// Producers returns the producers that the partition remembers, by id.
func (p *Partition) Producers(ctx context.Context) ([]producer.Known, error) {
	view, _, err := p.view(ctx)
	if err != nil {
		return nil, p.wrap("list producers of", err)
	}
	if view.Producers == 0 {
		return nil, nil
	}
	var known []producer.Known
	err = p.await(false, func(r *replica.Replica) error {
		known = r.Producers()
		return nil
	})
	return known, p.wrap("list producers of", err)
}
