package publicapi

import (
	"context"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// Topics is TopicService.
type Topics struct {
	logv1.UnimplementedTopicServiceServer
	backend *backend.Backend
}

// NewTopics returns the handler.
func NewTopics(b *backend.Backend) *Topics { return &Topics{backend: b} }

// CreateTopic makes a topic.
func (s *Topics) CreateTopic(ctx context.Context, req *logv1.CreateTopicRequest) (*logv1.CreateTopicResponse, error) {
	topic := backend.NewTopic{
		Name:              req.GetName(),
		Partitions:        1,
		ReplicationFactor: req.GetReplicationFactor(),
		Config:            req.GetConfig(),
	}
	if req.Partitions != nil {
		topic.Partitions = req.GetPartitions()
	}
	if err := s.backend.CreateTopic(ctx, callerOf(ctx), topic); err != nil {
		return nil, err
	}
	return &logv1.CreateTopicResponse{Name: topic.Name, Partitions: topic.Partitions}, nil
}

// ListTopics returns the names that the caller may read.
func (s *Topics) ListTopics(ctx context.Context, _ *logv1.ListTopicsRequest) (*logv1.ListTopicsResponse, error) {
	return &logv1.ListTopicsResponse{Topics: s.backend.ListTopics(callerOf(ctx))}, nil
}

// GetTopic describes a topic.
func (s *Topics) GetTopic(ctx context.Context, req *logv1.GetTopicRequest) (*logv1.GetTopicResponse, error) {
	return s.backend.DescribeTopic(ctx, callerOf(ctx), req.GetName())
}

// GetTopicConfig returns a topic's resolved config.
func (s *Topics) GetTopicConfig(ctx context.Context, req *logv1.GetTopicConfigRequest) (*logv1.GetTopicConfigResponse, error) {
	config, err := s.backend.TopicConfig(ctx, callerOf(ctx), req.GetName())
	if err != nil {
		return nil, err
	}
	return &logv1.GetTopicConfigResponse{Config: config}, nil
}

// UpdateTopicConfig changes the configs that are given.
func (s *Topics) UpdateTopicConfig(ctx context.Context, req *logv1.UpdateTopicConfigRequest) (*logv1.UpdateTopicConfigResponse, error) {
	config, err := s.backend.UpdateTopicConfig(ctx, callerOf(ctx), req.GetName(), req.GetConfig())
	if err != nil {
		return nil, err
	}
	return &logv1.UpdateTopicConfigResponse{Config: config}, nil
}

// DeleteTopic deletes a topic and its data.
func (s *Topics) DeleteTopic(ctx context.Context, req *logv1.DeleteTopicRequest) (*logv1.DeleteTopicResponse, error) {
	partitions, err := s.backend.DeleteTopic(ctx, callerOf(ctx), req.GetName())
	if err != nil {
		return nil, err
	}
	return &logv1.DeleteTopicResponse{Name: req.GetName(), Partitions: int32(partitions)}, nil
}
