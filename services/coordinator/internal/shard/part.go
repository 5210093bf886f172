package shard

import "context"

// Part gives access to one part P of the states of shards. What works on a part
// need not know what else shards keep.
type Part[P any] struct {
	// Shards tells which shards there are.
	Shards
	read  func(ctx context.Context, shard int32, op func(P) error) error
	write func(ctx context.Context, shard int32, op func(P) ([]Record, error)) error
}

// Shards is what a runtime tells of its shards, whatever they keep.
type Shards interface {
	Of(name string) (shard int32, ok bool)
	Count() int
	Owned() []int32
	Loaded() []int32
	Loads() uint64
	LoadsChanged() <-chan struct{}
}

// PartOf returns the part of a runtime's states that of finds.
func PartOf[M Machine, P any](r *Runtime[M], of func(M) P) *Part[P] {
	return &Part[P]{
		Shards: r,
		read: func(ctx context.Context, shard int32, op func(P) error) error {
			return r.Read(ctx, shard, func(m M) error { return op(of(m)) })
		},
		write: func(ctx context.Context, shard int32, op func(P) ([]Record, error)) error {
			return r.Write(ctx, shard, func(m M) ([]Record, error) { return op(of(m)) })
		},
	}
}

// Read is Runtime.Read of the part.
func (p *Part[P]) Read(ctx context.Context, shard int32, op func(P) error) error {
	return p.read(ctx, shard, op)
}

// Write is Runtime.Write of the part.
func (p *Part[P]) Write(ctx context.Context, shard int32, op func(P) ([]Record, error)) error {
	return p.write(ctx, shard, op)
}
