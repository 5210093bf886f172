package rpc

import (
	"context"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/producers"
)

// Producers serves ProducerService.
type Producers struct {
	coordinatorv1.UnimplementedProducerServiceServer

	producers *producers.Producers
}

// NewProducers returns the service.
func NewProducers(p *producers.Producers) *Producers { return &Producers{producers: p} }

// ResolveProducer returns an id's number.
func (p *Producers) ResolveProducer(ctx context.Context, req *coordinatorv1.ResolveProducerRequest) (*coordinatorv1.ResolveProducerResponse, error) {
	number, err := p.producers.Resolve(ctx, req.Owner, req.ProducerId)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.ResolveProducerResponse{Number: number}, nil
}

// ListProducers returns all ids.
func (p *Producers) ListProducers(ctx context.Context, _ *coordinatorv1.ListProducersRequest) (*coordinatorv1.ListProducersResponse, error) {
	list, err := p.producers.List(ctx)
	if err != nil {
		return nil, err
	}
	resp := &coordinatorv1.ListProducersResponse{Producers: make([]*coordinatorv1.ProducerId, len(list))}
	for i, k := range list {
		resp.Producers[i] = &coordinatorv1.ProducerId{
			Owner: k.Owner, ProducerId: k.ID, Number: k.Number, LastUsedMs: k.LastUsed.UnixMilli(),
		}
	}
	return resp, nil
}

// ForgetProducer forgets an id.
func (p *Producers) ForgetProducer(ctx context.Context, req *coordinatorv1.ForgetProducerRequest) (*coordinatorv1.ForgetProducerResponse, error) {
	found, err := p.producers.Forget(ctx, req.Owner, req.ProducerId)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.ForgetProducerResponse{Found: found}, nil
}
