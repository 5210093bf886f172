package shard

import (
	"context"

	"github.com/sluiceio/sluice/services/kit/lease"
)

// tenure is one time in which this coordinator owns a shard. It ends for good:
// to own the shard again is another tenure, with a higher epoch.
type tenure struct {
	shard int32
	epoch int64
	grant *lease.Grant
	// ctx ends with the tenure, for what only the owner has to do.
	ctx context.Context
	end context.CancelFunc
}

// alive reports whether nobody else can own the shard at this moment.
func (t *tenure) alive() bool { return t.ctx.Err() == nil && t.grant.Alive() }
