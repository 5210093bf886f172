package meta

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/elect"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// ForgetNode notes that a node was given up. It returns the revision of that.
// ErrNodeLive, ErrNotLeader.
//
// A process registers its node only while there is no such row, and here the row
// is written only while the node is not registered: both in one transaction, so
// that a node is never there and given up.
func (s *Store) ForgetNode(ctx context.Context, term elect.Term, id string, row *persistv1.ForgottenNodeRow) (revision int64, err error) {
	value, err := proto.Marshal(row)
	if err != nil {
		return 0, fmt.Errorf("encode the row of forgotten node %q: %w", id, err)
	}
	revision, ok, err := s.commit(ctx, term,
		clientv3.Compare(clientv3.CreateRevision(rows.NodeKey(id)), "=", 0),
		clientv3.OpPut(rows.ForgottenKey(id), string(value)))
	if err != nil {
		return 0, fmt.Errorf("forget node %q: %w", id, err)
	}
	if !ok {
		return 0, ErrNodeLive.WithMessage("node %q is there", id).With("node", id)
	}
	return revision, nil
}
