package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// reportsAtOnce bounds the partitions in one message of WatchReplicas.
const reportsAtOnce = 20_000

// PlaceReplicas implements ReplicaService.
func (s *Service) PlaceReplicas(_ context.Context, request *storagev1.PlaceReplicasRequest) (*storagev1.PlaceReplicasResponse, error) {
	topics := make([]*persistv1.CatalogTopic, len(request.GetTopics()))
	for i, t := range request.GetTopics() {
		topics[i] = catalogTopic(t)
	}
	err := s.options.Node.Place(topics)
	var removed *node.RemovedError
	if err != nil && !errors.As(err, &removed) {
		return nil, placementError("place replicas", err)
	}
	response := &storagev1.PlaceReplicasResponse{}
	if removed != nil {
		for _, id := range removed.Topics {
			response.RemovedTopicIds = append(response.RemovedTopicIds, id[:])
		}
	}
	return response, nil
}

func catalogTopic(t *storagev1.PlaceReplicasRequest_TopicPlacement) *persistv1.CatalogTopic {
	out := &persistv1.CatalogTopic{
		TopicId: t.GetTopicId(), Name: t.GetName(), Config: t.GetConfig(),
		ConfigVersion: t.GetConfigVersion(), Internal: t.GetInternal(),
		Partitions: make([]*persistv1.CatalogPartition, len(t.GetPartitions())),
	}
	for i, p := range t.GetPartitions() {
		row := &persistv1.CatalogPartition{Partition: p.GetPartition(), ReplicaId: p.GetReplicaId()}
		for _, voter := range p.GetVoters() {
			row.VoterIds = append(row.VoterIds, voter.GetReplicaId())
			row.VoterNodes = append(row.VoterNodes, voter.GetNode())
		}
		out.Partitions[i] = row
	}
	return out
}

// RemoveReplicas implements ReplicaService.
func (s *Service) RemoveReplicas(_ context.Context, request *storagev1.RemoveReplicasRequest) (*storagev1.RemoveReplicasResponse, error) {
	ids := make([]uuid.UUID, len(request.GetTopicIds()))
	for i, b := range request.GetTopicIds() {
		id, err := uuid.FromBytes(b)
		if err != nil {
			return nil, errs.New(errs.InvalidArgument, "INVALID_TOPIC_ID", "topic id of %d bytes, expected a UUID of 16", len(b))
		}
		ids[i] = id
	}
	if err := s.options.Node.Remove(ids, request.GetRevision()); err != nil {
		return nil, placementError("remove replicas", err)
	}
	return &storagev1.RemoveReplicasResponse{}, nil
}

// placementError maps the failure of a call that has one answer.
func placementError(doing string, err error) error {
	switch {
	case errors.Is(err, node.ErrReplicas):
		return errs.New(errs.Unimplemented, "REPLICAS_UNSUPPORTED", "%s: %v", doing, err)
	case errors.Is(err, node.ErrStopping):
		return errs.New(errs.Unavailable, "STOPPING", "%s: %v", doing, err)
	case errors.Is(err, node.ErrDisk):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return errs.New(errs.InvalidArgument, "INVALID_PLACEMENT", "%s: %v", doing, err)
}

// Fence implements ReplicaService.
func (s *Service) Fence(ctx context.Context, request *storagev1.FenceRequest) (*storagev1.FenceResponse, error) {
	p, err := s.partition(request.GetPartition())
	if err != nil {
		return &storagev1.FenceResponse{Error: partitionError(err)}, nil
	}
	if epoch := request.GetOwnerEpoch(); epoch < 0 {
		err := fmt.Errorf("%w: owner epoch %d, expected 0 or more", errInvalid, epoch)
		return &storagev1.FenceResponse{Error: partitionError(err)}, nil
	}
	end, err := p.Fence(ctx, request.GetOwnerEpoch())
	return &storagev1.FenceResponse{Error: partitionError(err), LogEndOffset: end}, nil
}

// WatchReplicas implements ReplicaService.
func (s *Service) WatchReplicas(_ *storagev1.WatchReplicasRequest, stream grpc.ServerStreamingServer[storagev1.WatchReplicasResponse]) error {
	changes := s.options.Node.Subscribe()
	defer changes.Close()
	if err := sendReports(stream, s.options.Node.Reports(), true); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changes.C:
			if err := sendReports(stream, changes.Take(), false); err != nil {
				return err
			}
		}
	}
}

// sendReports sends reports grouped by topic, in messages of bounded size.
func sendReports(stream grpc.ServerStreamingServer[storagev1.WatchReplicasResponse], reports []node.Report, snapshot bool) error {
	for first := true; first || len(reports) > 0; first = false {
		n := min(len(reports), reportsAtOnce)
		message := &storagev1.WatchReplicasResponse{
			Topics:       byTopic(reports[:n]),
			SnapshotDone: snapshot && n == len(reports),
		}
		reports = reports[n:]
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	return nil
}

func byTopic(reports []node.Report) []*storagev1.WatchReplicasResponse_TopicReport {
	var out []*storagev1.WatchReplicasResponse_TopicReport
	topics := map[uuid.UUID]*storagev1.WatchReplicasResponse_TopicReport{}
	for _, r := range reports {
		t := topics[r.Key.Topic]
		if t == nil {
			t = &storagev1.WatchReplicasResponse_TopicReport{TopicId: r.Key.Topic[:]}
			topics[r.Key.Topic] = t
			out = append(out, t)
		}
		t.Partitions = append(t.Partitions, r.Key.Partition)
		t.Leads = append(t.Leads, r.Leads)
		t.Epochs = append(t.Epochs, r.Epoch)
		t.Damaged = append(t.Damaged, r.Damaged)
	}
	return out
}
