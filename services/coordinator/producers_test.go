package coordinator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

func (p *process) resolve(owner, id string) (int64, error) {
	resp, err := p.producers.ResolveProducer(p.Context(), &coordinatorv1.ResolveProducerRequest{Owner: owner, ProducerId: id})
	return resp.GetNumber(), err
}

func TestProducerIdsSurviveAnOwnerAndAreNeverReused(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a := c.start("a", "coordinator")
	var first int64
	retry(t, func() (err error) {
		first, err = a.resolve("key_1", "checkout")
		return err
	})
	given := map[int64]bool{first: true}
	other, err := a.resolve("key_1", "billing")
	require.NoError(t, err)
	require.False(t, given[other])
	given[other] = true
	for owner, id := range map[string]string{"": "x", "key_1": "", "key_2": strings.Repeat("x", 1025)} {
		_, err := a.resolve(owner, id)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err), "%v", err)
	}

	a.stop()
	b := c.start("b", "coordinator")
	var again int64
	retry(t, func() (err error) {
		again, err = b.resolve("key_1", "checkout")
		return err
	})
	require.Equal(t, first, again)
	_, err = b.resolve("key_2", "checkout")
	require.Equal(t, errs.PermissionDenied, errs.KindOf(err))
	list, err := b.producers.ListProducers(t.Context(), &coordinatorv1.ListProducersRequest{})
	require.NoError(t, err)
	require.Len(t, list.Producers, 2)
	require.Equal(t, "billing", list.Producers[0].ProducerId)
	require.Equal(t, "key_1", list.Producers[0].Owner)
	require.Equal(t, other, list.Producers[0].Number)
	require.Positive(t, list.Producers[0].LastUsedMs)

	forget := func(owner, id string) bool {
		resp, err := b.producers.ForgetProducer(t.Context(), &coordinatorv1.ForgetProducerRequest{Owner: owner, ProducerId: id})
		require.NoError(t, err)
		return resp.Found
	}
	require.False(t, forget("", "nobody"))
	require.False(t, forget("key_2", "checkout"))
	require.True(t, forget("", "checkout"))
	require.False(t, forget("", "checkout"))
	fresh, err := b.resolve("key_2", "checkout")
	require.NoError(t, err, "it is whose it is used by next")
	require.False(t, given[fresh])
}
