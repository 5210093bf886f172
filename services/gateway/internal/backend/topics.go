package backend

import (
	"context"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/gateway/internal/topicconf"
	"github.com/sluiceio/sluice/services/kit/errs"
)

const (
	// maxPublicName is the longest name that the public API creates.
	maxPublicName = 200
	// maxName is the longest name that there can be: Kafka's.
	maxName = 249
	// maxPartitions is the largest number of partitions of a topic.
	maxPartitions = 10_000
)

// NewTopic is a topic to make.
type NewTopic struct {
	Name       string
	Partitions int32
	// ReplicationFactor is the cluster's default when it is 0.
	ReplicationFactor int32
	Config            *logv1.TopicConfig
}

// CreateTopic makes a topic and returns when it can be written to.
func (b *Backend) CreateTopic(ctx context.Context, caller grants.Caller, t NewTopic) error {
	if err := caller.Admin(); err != nil {
		return err
	}
	if err := checkNewName(t.Name); err != nil {
		return err
	}
	if t.Partitions < 1 || t.Partitions > maxPartitions {
		return invalid("partitions must be between 1 and %d, got %d", maxPartitions, t.Partitions)
	}
	if t.ReplicationFactor < 0 {
		return invalid("replication_factor must be 1 or more, got %d", t.ReplicationFactor)
	}
	config, err := topicconf.ToKafka(t.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.CreateTopicResponse
	err = b.metadata(ctx, func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.CreateTopic(ctx, &coordinatorv1.CreateTopicRequest{
			Name:              t.Name,
			Partitions:        t.Partitions,
			ReplicationFactor: t.ReplicationFactor,
			Config:            config,
		}, opts...)
		return err
	})
	if err != nil {
		return err
	}
	b.settle(ctx, resp.GetRevision())
	return nil
}

// ListTopics returns the names that the caller may read, sorted.
func (b *Backend) ListTopics(caller grants.Caller) []string {
	var names []string
	for _, t := range b.watcher.Current().Topics() {
		if !t.Internal && caller.May(registryv1.Action_ACTION_READ, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// TopicConfig returns the resolved config of a topic.
func (b *Backend) TopicConfig(ctx context.Context, caller grants.Caller, name string) (*logv1.TopicConfig, error) {
	t, err := b.readable(ctx, caller, name)
	if err != nil {
		return nil, err
	}
	return b.topics.Resolve(t.Config), nil
}

// UpdateTopicConfig sets the configs that are given, all or none, and returns
// the resolved config after it.
func (b *Backend) UpdateTopicConfig(ctx context.Context, caller grants.Caller, name string, c *logv1.TopicConfig) (*logv1.TopicConfig, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	set, err := topicconf.ToKafka(c)
	if err != nil {
		return nil, err
	}
	known, err := b.topic(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(set) == 0 {
		return b.topics.Resolve(known.Config), nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.UpdateTopicConfigResponse
	err = b.metadata(ctx, func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.UpdateTopicConfig(ctx, &coordinatorv1.UpdateTopicConfigRequest{Name: name, Set: set}, opts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.settle(ctx, resp.GetRevision())
	return b.topics.Resolve(resp.GetTopic().GetConfig()), nil
}

// DeleteTopic deletes a topic and its data, and returns how many partitions it
// had.
func (b *Backend) DeleteTopic(ctx context.Context, caller grants.Caller, name string) (partitions int, err error) {
	if err := caller.Admin(); err != nil {
		return 0, err
	}
	known, err := b.topic(ctx, name)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.DeleteTopicResponse
	err = b.metadata(ctx, func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.DeleteTopic(ctx, &coordinatorv1.DeleteTopicRequest{Name: name}, opts...)
		return err
	})
	if err != nil {
		return 0, err
	}
	b.settle(ctx, resp.GetRevision())
	b.traffic.forget(b.watcher.Current())
	return len(known.Partitions), nil
}

// CountTopics returns how many topics there are.
func (b *Backend) CountTopics() int {
	n := 0
	for _, t := range b.watcher.Current().Topics() {
		if !t.Internal {
			n++
		}
	}
	return n
}

// readable returns a topic that the caller may read.
func (b *Backend) readable(ctx context.Context, caller grants.Caller, name string) (*picture.Topic, error) {
	if err := caller.Check(registryv1.Action_ACTION_READ, name); err != nil {
		return nil, err
	}
	return b.topic(ctx, name)
}

// topic returns a topic by its name. One that is not in the picture may have
// been made through another gateway a moment ago, so the coordinator is asked.
// The system's own topics do not exist for callers.
func (b *Backend) topic(ctx context.Context, name string) (*picture.Topic, error) {
	t := b.watcher.Current().Topic(name)
	if t == nil && validName(name) && b.absent.ask(name, b.now()) {
		var err error
		if t, err = b.lookUp(ctx, name); err != nil {
			return nil, err
		}
	}
	if t == nil || t.Internal {
		return nil, ErrTopicNotFound.WithMessage("topic %q does not exist", shorten(name))
	}
	return t, nil
}

// lookUp asks the coordinator for a topic and waits until it is in the picture.
// A topic that does not exist is nil.
func (b *Backend) lookUp(ctx context.Context, name string) (*picture.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Patience)
	defer cancel()
	var resp *coordinatorv1.DescribeTopicResponse
	err := b.metadata(ctx, func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.DescribeTopic(ctx, &coordinatorv1.DescribeTopicRequest{Name: name}, opts...)
		return err
	})
	if err != nil {
		if errs.KindOf(err) == errs.NotFound {
			b.absent.note(name)
			return nil, nil
		}
		return nil, err
	}
	p, err := b.watcher.WaitFor(ctx, resp.GetRevision())
	if err != nil {
		return nil, errUnreached.WithMessage("topic %q is not known here yet, try again", name).Because(err)
	}
	return p.Topic(name), nil
}

func (b *Backend) metadata(ctx context.Context, do func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) error) error {
	return b.coordinators.call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(coordinatorv1.NewMetadataServiceClient(conn), opts...)
	})
}

func checkNewName(name string) error {
	switch {
	case name == "":
		return invalid("name must be given")
	case len(name) > maxPublicName:
		return invalid("name must have at most %d characters, got %d", maxPublicName, len(name))
	case !validName(name):
		return invalid("name must be letters, digits, '.', '-' and '_', and not \".\" or \"..\", got %q", shorten(name))
	}
	return nil
}

func validName(name string) bool {
	if name == "" || len(name) > maxName || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// shorten keeps what somebody sent readable in a message.
func shorten(s string) string {
	const most = maxName
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
