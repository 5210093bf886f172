// Package rows is what the coordinators keep in etcd: which key holds what, and
// how it is read.
//
//	/sluice/cluster            persist.v1.ClusterRow, once for all
//	/sluice/nodes/<id>         persist.v1.NodeRow, under the process's lease
//	/sluice/topics/<name>      persist.v1.TopicRow
//	/sluice/deleting/<id>      persist.v1.TopicRow of a topic whose replicas go
//	/sluice/forgotten/<id>     persist.v1.ForgottenNodeRow of a node that was given up
//	/sluice/leader/<lease>     node id; the oldest key is the elected coordinator
//	/sluice/shards/<number>    persist.v1.ShardRow, under the owner's lease
//
// The keys are on disk: they must not change.
package rows

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Prefixes of keys; see the package comment.
const (
	Root     = "/sluice/"
	Cluster  = Root + "cluster"
	Nodes    = Root + "nodes/"
	Topics   = Root + "topics/"
	Deleting = Root + "deleting/"
	Shards   = Root + "shards/"
	// Forgotten are the nodes that were given up.
	Forgotten = Root + "forgotten/"
	// Election is the prefix of the election without the slash that the
	// election adds.
	Election = Root + "leader"
)

// TopicID is a topic's UUID. It is never used again.
type TopicID [16]byte

// ParseTopicID reads an id from a message; ok is false unless it has 16 bytes.
func ParseTopicID(b []byte) (id TopicID, ok bool) {
	if len(b) != len(id) {
		return id, false
	}
	return TopicID(b), true
}

// String returns the id in hexadecimal.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// NodeKey is the key of a node's row.
func NodeKey(id string) string { return Nodes + id }

// ForgottenKey is the key that keeps processes of a node's id out, once the node
// was given up.
func ForgottenKey(id string) string { return Forgotten + id }

// TopicKey is the key of a topic's row.
func TopicKey(name string) string { return Topics + name }

// DeletingKey is the key under which a topic's row stands until its replicas
// are gone. It goes by id, so that the name is free at once.
func DeletingKey(id TopicID) string { return Deleting + id.String() }

// ShardKey is the key of a shard's owner.
func ShardKey(shard int32) string { return Shards + strconv.Itoa(int(shard)) }

// ParseShardKey returns the shard that a key belongs to.
func ParseShardKey(key string) (int32, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(key, Shards), 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is no key of a shard", key)
	}
	return int32(n), nil
}
