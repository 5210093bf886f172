package rpc

import (
	"context"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/offsets"
)

// Offsets serves OffsetService.
type Offsets struct {
	coordinatorv1.UnimplementedOffsetServiceServer

	offsets *offsets.Offsets
}

// NewOffsets returns the service.
func NewOffsets(o *offsets.Offsets) *Offsets { return &Offsets{offsets: o} }

// CommitOffsets stores offsets.
func (o *Offsets) CommitOffsets(ctx context.Context, req *coordinatorv1.CommitOffsetsRequest) (*coordinatorv1.CommitOffsetsResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	var member *group.Claimant
	if req.MemberId != "" {
		member = &group.Claimant{ID: req.MemberId, Generation: req.Generation}
	}
	if err := o.offsets.Commit(ctx, caller, req.Group, member, req.Offsets); err != nil {
		return nil, err
	}
	return &coordinatorv1.CommitOffsetsResponse{}, nil
}

// FetchOffsets returns a group's offsets.
func (o *Offsets) FetchOffsets(ctx context.Context, req *coordinatorv1.FetchOffsetsRequest) (*coordinatorv1.FetchOffsetsResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	found, err := o.offsets.Fetch(ctx, caller, req.Group, req.TopicIds)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.FetchOffsetsResponse{Offsets: found}, nil
}

// ListOffsets returns the offsets of all groups of the shards owned here.
func (o *Offsets) ListOffsets(ctx context.Context, _ *coordinatorv1.ListOffsetsRequest) (*coordinatorv1.ListOffsetsResponse, error) {
	groups, err := o.offsets.List(ctx)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.ListOffsetsResponse{Groups: groups}, nil
}
