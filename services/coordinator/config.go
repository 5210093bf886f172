package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
)

// Config is a coordinator's configuration. RegisterFlags sets the defaults.
type Config struct {
	// ReplicationFactor is that of topics that name none, the shards' topic
	// among them. More replicas survive more failures, at the price of as many
	// writes; there must be as many storage nodes.
	ReplicationFactor int
	// Shards is the number of shards over which groups are spread, 1 to 10,000.
	// It counts when a cluster starts for the first time and is fixed then.
	// More can be spread over more coordinators.
	Shards int32
	// NodeTimeout limits one call to a storage node while topics are made and
	// deleted.
	NodeTimeout time.Duration
	// ShardAppendTimeout limits one write of a shard. After it the outcome is
	// unknown and the shard is loaded anew.
	ShardAppendTimeout time.Duration
	// ShardLoadTimeout limits how long loading a shard goes on without progress,
	// while those who asked wait.
	ShardLoadTimeout time.Duration
	// ShardMaxQueued limits the requests that wait for one shard. Each holds its
	// records in memory; further ones are refused.
	ShardMaxQueued int
	// ShardMaxBatchBytes limits the records of one request to a shard.
	ShardMaxBatchBytes int
	// MemberTimeout is how long a member of a group may miss its heartbeats before
	// its partitions go to others. Shorter finds the dead sooner, and takes the slow
	// for dead.
	MemberTimeout time.Duration
	// ExpireInterval is how often overdue members are looked for: how much later
	// than its timeout one may go.
	ExpireInterval time.Duration
	// MaxMembers limits the members of one group. Each join shares out all of the
	// group's partitions anew.
	MaxMembers int
	// MaxGroups limits the groups of one shard, which are in memory.
	MaxGroups int
	// GroupIdleTimeout is how long a group stays that has neither members nor
	// committed offsets; 0 is until somebody deletes it. Until then its name is its
	// owner's. Committed offsets never expire.
	GroupIdleTimeout time.Duration
}

// RegisterFlags adds the configuration to a flag set and sets the defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.IntVar(&c.ReplicationFactor, "default-replication-factor", 1, "replicas of topics that name no number")
	fs.Int32Var(&c.Shards, "coord-shards", 16, "shards over which groups are spread; fixed at a cluster's first start")
	fs.DurationVar(&c.NodeTimeout, "coord-node-timeout", 10*time.Second, "limit on one call to a storage node when topics are made and deleted")
	fs.DurationVar(&c.ShardAppendTimeout, "coord-append-timeout", 10*time.Second, "limit on one write of a shard")
	fs.DurationVar(&c.ShardLoadTimeout, "coord-load-timeout", 10*time.Second, "limit on loading a shard without progress")
	fs.IntVar(&c.ShardMaxQueued, "coord-max-queued", 10_000, "requests that may wait for one shard")
	fs.IntVar(&c.ShardMaxBatchBytes, "coord-max-batch-bytes", 1<<20, "bytes of the records of one request to a shard")
	fs.DurationVar(&c.MemberTimeout, "coord-member-timeout", 30*time.Second, "how long a member of a group may miss its heartbeats")
	fs.DurationVar(&c.ExpireInterval, "coord-expire-interval", time.Second, "how often members that missed their heartbeats are looked for")
	fs.IntVar(&c.MaxMembers, "coord-max-members", 5000, "members that one group may have")
	fs.IntVar(&c.MaxGroups, "coord-max-groups", 50_000, "groups that one shard may have")
	fs.DurationVar(&c.GroupIdleTimeout, "coord-group-idle-timeout", 7*24*time.Hour, "how long a group stays without members and committed offsets; 0: until it is deleted")
}

// maxBatchBytes keeps two requests' records, which may share a batch, below
// what a message between services can carry.
const maxBatchBytes = 16 << 20

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.ReplicationFactor >= 1, "--default-replication-factor must be at least 1, got %d", c.ReplicationFactor)
	check(c.Shards >= 1 && c.Shards <= meta.MaxPartitions, "--coord-shards must be 1 to %d, got %d", meta.MaxPartitions, c.Shards)
	check(c.NodeTimeout > 0, "--coord-node-timeout must be more than 0, got %s", c.NodeTimeout)
	check(c.ShardAppendTimeout > 0, "--coord-append-timeout must be more than 0, got %s", c.ShardAppendTimeout)
	check(c.ShardLoadTimeout > 0, "--coord-load-timeout must be more than 0, got %s", c.ShardLoadTimeout)
	check(c.ShardMaxQueued >= 1, "--coord-max-queued must be at least 1, got %d", c.ShardMaxQueued)
	check(c.ShardMaxBatchBytes >= 16<<10 && c.ShardMaxBatchBytes <= maxBatchBytes,
		"--coord-max-batch-bytes must be %d to %d, got %d", 16<<10, maxBatchBytes, c.ShardMaxBatchBytes)
	check(c.MemberTimeout > 0, "--coord-member-timeout must be more than 0, got %s", c.MemberTimeout)
	check(c.ExpireInterval > 0, "--coord-expire-interval must be more than 0, got %s", c.ExpireInterval)
	check(c.MaxMembers >= 1, "--coord-max-members must be at least 1, got %d", c.MaxMembers)
	check(c.MaxGroups >= 1, "--coord-max-groups must be at least 1, got %d", c.MaxGroups)
	check(c.GroupIdleTimeout >= 0, "--coord-group-idle-timeout must be 0 or more, got %s", c.GroupIdleTimeout)
	return errors.Join(faults...)
}
