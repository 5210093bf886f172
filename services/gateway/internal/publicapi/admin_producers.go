package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// ListProducers returns the idempotent producers.
func (s *adminService) ListProducers(ctx context.Context, _ *adminv1.ListProducersRequest) (*adminv1.ListProducersResponse, error) {
	producers, err := s.backend.Producers(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &adminv1.ListProducersResponse{Producers: producers}, nil
}

// DeleteProducer forgets a producer.
func (s *adminService) DeleteProducer(ctx context.Context, req *adminv1.DeleteProducerRequest) (*adminv1.DeleteProducerResponse, error) {
	if err := s.backend.ForgetProducer(ctx, callerOf(ctx), req.GetOwner(), req.GetProducerId()); err != nil {
		return nil, err
	}
	return &adminv1.DeleteProducerResponse{}, nil
}
