package shard

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/services/kit/backoff"
)

// patience ends its context when there was no progress for a while.
type patience struct {
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer
	limit   time.Duration
	between *backoff.Backoff
}

func newPatience(ctx context.Context, limit time.Duration) *patience {
	p := &patience{limit: limit, between: backoff.New(backoff.Policy{Initial: 5 * time.Millisecond, Max: 500 * time.Millisecond})}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.timer = time.AfterFunc(limit, p.cancel)
	return p
}

// progress begins the while anew.
func (p *patience) progress() {
	p.timer.Reset(p.limit)
	p.between.Reset()
}

// wait waits before another attempt; false when there shall be none.
func (p *patience) wait() bool { return p.between.Wait(p.ctx) == nil }

func (p *patience) stop() {
	p.timer.Stop()
	p.cancel()
}
