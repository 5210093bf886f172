package node

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// current is readable for a call whose answer must show all that was acknowledged
// before it. What a sole replica shows always does, and costs nothing; one with
// others asks them whether it still leads.
func (p *Partition) current(ctx context.Context, epoch int32) (*replica.View, *raftlog.Log, error) {
	view, log, err := p.readable(ctx, epoch)
	if err != nil || view.Sole {
		return view, log, err
	}
	confirmed := make(chan error, 1)
	p.do(task{lost: answerOnce(confirmed), run: func(r *replica.Replica, err error) {
		if err == nil && r == nil {
			err = ErrStopping
		}
		if err != nil {
			confirmed <- err
			return
		}
		r.Confirm(func(err error) { confirmed <- err })
		// A failure is kept by the replica, and answers what waits.
		_ = r.Run()
	}}, false)
	select {
	case err := <-confirmed:
		if err != nil {
			return nil, nil, p.translate(err)
		}
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("confirm the leader: %w", ctx.Err())
	}
	return p.readable(ctx, epoch)
}
