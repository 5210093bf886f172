package shard

import "context"

// grant is the lease under which a shard is owned; lease.Grant is one.
type grant interface {
	// Alive reports whether the lease can be relied on at this moment.
	Alive() bool
}

// tenure is one time in which this coordinator owns a shard. It ends for good:
// to own the shard again is another tenure, with a higher epoch.
type tenure struct {
	shard int32
	epoch int64
	grant grant
	// ctx ends with the tenure, for what only the owner has to do.
	ctx context.Context
	end context.CancelFunc
}

// alive reports whether nobody else can own the shard at this moment.
func (t *tenure) alive() bool { return t.ctx.Err() == nil && t.grant.Alive() }
