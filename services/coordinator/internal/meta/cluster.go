package meta

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// FormatVersion is the newest version of what is in etcd and in the shards'
// logs that this program reads, and the one that it writes.
const FormatVersion = 1

// ErrNewerFormat means that a newer version of the program has been here.
var ErrNewerFormat = errors.New("the cluster was written by a newer version")

// EnsureCluster returns the cluster's row, which it writes if this is the first
// coordinator ever. ErrNewerFormat.
func EnsureCluster(ctx context.Context, etcd *clientv3.Client) (*persistv1.ClusterRow, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make an id for the cluster: %w", err)
	}
	row := &persistv1.ClusterRow{Id: id[:], FormatVersion: FormatVersion}
	value, err := proto.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode the row of the cluster: %w", err)
	}
	resp, err := etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(rows.Cluster), "=", 0)).
		Then(clientv3.OpPut(rows.Cluster, string(value))).
		Else(clientv3.OpGet(rows.Cluster)).
		Commit()
	if err != nil {
		return nil, noAnswer(ctx, fmt.Errorf("read the row of the cluster: %w", err))
	}
	if resp.Succeeded {
		return row, nil
	}
	row = &persistv1.ClusterRow{}
	if err := proto.Unmarshal(resp.Responses[0].GetResponseRange().Kvs[0].Value, row); err != nil {
		return nil, fmt.Errorf("decode the row of the cluster: %w", err)
	}
	if row.FormatVersion > FormatVersion {
		return nil, fmt.Errorf("%w: format %d, this program knows %d", ErrNewerFormat, row.FormatVersion, FormatVersion)
	}
	return row, nil
}
