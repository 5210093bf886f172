package node

import "context"

func (p *Partition) compact(context.Context, bool) error { return nil }
