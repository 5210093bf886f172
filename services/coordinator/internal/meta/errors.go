package meta

import "github.com/sluiceio/sluice/services/kit/errs"

// What callers can act on.
var (
	ErrTopicNotFound = errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "the topic does not exist")
	ErrTopicExists   = errs.New(errs.AlreadyExists, "TOPIC_EXISTS", "the topic exists")
	// ErrInternalTopic: the topic is the system's own; nobody else changes it.
	ErrInternalTopic = errs.New(errs.InvalidArgument, "INTERNAL_TOPIC", "the topic is the system's")
	// ErrNodeNotFound: nobody knows the node.
	ErrNodeNotFound = errs.New(errs.NotFound, "NODE_NOT_FOUND", "the node is not known")
	// ErrNodeLive: the node has a lease, so it cannot be given up.
	ErrNodeLive = errs.New(errs.Aborted, "NODE_LIVE", "the node is there")
	// ErrOnlyReplica: giving the node up would lose partitions.
	ErrOnlyReplica = errs.New(errs.Aborted, "ONLY_REPLICA", "the node has the only replica of partitions")
	// ErrNotLeader: the caller is not, or no longer, the elected coordinator.
	ErrNotLeader = errs.New(errs.Unavailable, "NOT_COORDINATOR_LEADER", "this coordinator is not the elected leader")
	// ErrNoAnswer: etcd did not answer; a change may or may not have been made.
	ErrNoAnswer = errs.New(errs.Unavailable, "METADATA_UNAVAILABLE", "the metadata store does not answer")
)

func notFound(name string) error {
	return ErrTopicNotFound.WithMessage("topic %q does not exist", shorten(name)).With("topic", shorten(name))
}

// refuseInternal keeps callers from the system's topics.
func refuseInternal(row Row) error {
	if row.Internal {
		return ErrInternalTopic.WithMessage("topic %q is the system's", row.Name)
	}
	return nil
}
