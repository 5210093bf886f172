package backend

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/purse"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// ErrQuota is that a key has used up its bytes for now.
var ErrQuota = errs.New(errs.ResourceExhausted, "QUOTA_EXCEEDED", "over the key's quota")

// ahead is the part of a second's budget that is taken beyond what a request
// needs, so that small requests do not ask the registry each. Of several gateways
// each may hold so much that the others cannot have, for a second.
const ahead = 20

// quotas hold every key to its bytes a second, over all gateways together: the
// budget of a key is kept by one registry, which all gateways choose alike, and
// handed out in small parts. Bytes are those of keys and values.
type quotas struct {
	registry *pool

	mu struct {
		sync.Mutex
		// Of keys that have a quota.
		byKey map[string]*purses
	}
}

// purses are what this gateway has of one key's budgets.
type purses struct {
	mu struct {
		sync.Mutex
		produce, consume purse.Purse
	}
}

func (q *quotas) of(caller grants.Caller) *purses {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.mu.byKey[caller.ID()]
	if p == nil {
		if q.mu.byKey == nil {
			q.mu.byKey = make(map[string]*purses)
		}
		p = &purses{}
		q.mu.byKey[caller.ID()] = p
	}
	return p
}

// produce takes the bytes of a request before any of it is written. ErrQuota.
func (q *quotas) produce(ctx context.Context, caller grants.Caller, bytes int64) error {
	rate := caller.ProduceBytesPerSec()
	if rate == 0 || bytes == 0 {
		return nil
	}
	if bytes > rate {
		return ErrQuota.WithMessage("the records have %d bytes, more than the key may write in a whole second, %d; send fewer at once", bytes, rate).
			WithRetryAfter(time.Second)
	}
	p := q.of(caller)
	now := time.Now()
	p.mu.Lock()
	if p.mu.produce.Spend(bytes, now) {
		p.mu.Unlock()
		return nil
	}
	had := p.mu.produce.Take(now)
	p.mu.Unlock()
	needed := bytes - had.Bytes(now)
	resp, err := q.take(ctx, &registryv1.TakeQuotaRequest{
		KeyId: caller.ID(), ProduceBytes: needed + rate/ahead, ProduceNeeded: needed,
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || resp.GetProduceBytes() < needed {
		p.mu.produce.Return(had, now)
		return overQuota(err, "write", rate, resp.GetRetryAfterMs())
	}
	p.mu.produce.Put(resp.GetProduceBytes()-needed, now)
	return nil
}

// mayConsume says whether a key may read at all: not while its budget is in debt.
// ErrQuota.
func (q *quotas) mayConsume(ctx context.Context, caller grants.Caller) error {
	rate := caller.ConsumeBytesPerSec()
	if rate == 0 {
		return nil
	}
	p := q.of(caller)
	now := time.Now()
	p.mu.Lock()
	have := p.mu.consume.Bytes(now)
	p.mu.Unlock()
	if have > 0 {
		return nil
	}
	resp, err := q.take(ctx, &registryv1.TakeQuotaRequest{
		KeyId: caller.ID(), ConsumeBytes: max(rate/ahead, 1), ConsumedBytes: -have,
	})
	if err != nil {
		return overQuota(err, "read", rate, 0)
	}
	p.mu.Lock()
	p.mu.consume.Settle(-have)
	p.mu.consume.Put(resp.GetConsumeBytes(), now)
	p.mu.Unlock()
	if resp.GetConsumeBytes() == 0 {
		return overQuota(nil, "read", rate, resp.GetRetryAfterMs())
	}
	return nil
}

// consumed takes what was read. When the registry cannot be told, the debt stays
// here until it can.
func (q *quotas) consumed(ctx context.Context, caller grants.Caller, bytes int64) {
	if caller.ConsumeBytesPerSec() == 0 || bytes == 0 {
		return
	}
	p := q.of(caller)
	p.mu.Lock()
	debt := p.mu.consume.Charge(bytes, time.Now())
	// Whoever reads next meanwhile must not tell of it too.
	p.mu.consume.Settle(debt)
	p.mu.Unlock()
	if debt == 0 {
		return
	}
	// The bytes go out even if the caller hangs up now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := q.take(ctx, &registryv1.TakeQuotaRequest{KeyId: caller.ID(), ConsumedBytes: debt}); err != nil {
		p.mu.Lock()
		p.mu.consume.Settle(-debt)
		p.mu.Unlock()
	}
}

// forget drops what is held for keys that are no more.
func (q *quotas) forget(keys ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		delete(q.mu.byKey, key)
	}
}

func overQuota(err error, what string, rate, retryAfterMs int64) error {
	if err == nil {
		return ErrQuota.WithMessage("the key may %s %d bytes a second and has used them up", what, rate).
			WithRetryAfter(max(time.Duration(retryAfterMs)*time.Millisecond, time.Millisecond))
	}
	if errs.KindOf(err) == errs.NotFound {
		return errRevoked
	}
	return err
}

// errRevoked is that a key ended while its request was under way.
var errRevoked = errs.New(errs.Unauthenticated, "UNAUTHENTICATED", "the key is not known")

// take asks the registry that keeps the budgets of a key: the one whose name goes
// highest with the key's (rendezvous hashing), so that all gateways choose the
// same, and few keys move when a registry comes or goes. If that is away another
// one does, whose budget begins full.
func (q *quotas) take(ctx context.Context, req *registryv1.TakeQuotaRequest) (*registryv1.TakeQuotaResponse, error) {
	found, err := q.registry.finder.Find(ctx, RoleRegistry)
	if err != nil {
		return nil, errUnreached.Because(err)
	}
	nodes := slices.Clone(found)
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Compare(score(b.ID, req.GetKeyId()), score(a.ID, req.GetKeyId()))
	})
	err = errUnreached.WithMessage("there is no registry just now")
	for _, node := range nodes {
		var resp *registryv1.TakeQuotaResponse
		err = reach(ctx, q.registry.dialer, node, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) (err error) {
			resp, err = registryv1.NewQuotaServiceClient(conn).TakeQuota(ctx, req, opts...)
			return err
		})
		if !neverSent(err) {
			return resp, err
		}
	}
	return nil, err
}

func score(node, key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(node))
	// FNV hardly mixes its last bytes upwards, and node ids differ in those.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
