package rpc

import (
	"context"
	"time"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/registry/internal/keyring"
	"github.com/sluiceio/sluice/services/registry/internal/quota"
)

// Quota is QuotaService.
type Quota struct {
	registryv1.UnimplementedQuotaServiceServer

	ring    *keyring.Ring
	budgets *quota.Budgets
}

// NewQuota returns the handler.
func NewQuota(ring *keyring.Ring, budgets *quota.Budgets) *Quota {
	return &Quota{ring: ring, budgets: budgets}
}

// TakeQuota takes bytes from the budgets of a key.
func (q *Quota) TakeQuota(_ context.Context, req *registryv1.TakeQuotaRequest) (*registryv1.TakeQuotaResponse, error) {
	for _, bytes := range []int64{req.GetProduceBytes(), req.GetProduceNeeded(), req.GetConsumeBytes(), req.GetConsumedBytes()} {
		if bytes < 0 {
			return nil, errs.New(errs.InvalidArgument, "INVALID_QUOTA", "bytes must be 0 or more, got %d", bytes)
		}
	}
	row, err := q.ring.Key(req.GetKeyId())
	if err != nil {
		return nil, err
	}
	grant := q.budgets.Take(row.GetKeyId(),
		quota.Rates{Produce: row.GetProduceBytesPerSec(), Consume: row.GetConsumeBytesPerSec()},
		quota.Demand{
			Produce:  req.GetProduceBytes(),
			Needed:   req.GetProduceNeeded(),
			Consume:  req.GetConsumeBytes(),
			Consumed: req.GetConsumedBytes(),
		})
	return &registryv1.TakeQuotaResponse{
		ProduceBytes: grant.Produce,
		ConsumeBytes: grant.Consume,
		// Up, or a caller would come a moment too early.
		RetryAfterMs: int64((grant.RetryAfter + time.Millisecond - 1) / time.Millisecond),
	}, nil
}
