package replica

import (
	"fmt"

	"github.com/google/uuid"
)

// Key names a partition in the cluster: the topic by id, so that a topic made
// anew under an old name never meets the old one's data.
type Key struct {
	Topic     uuid.UUID
	Partition int32
}

// String is the form that logs and folder names use.
func (k Key) String() string { return fmt.Sprintf("%s/%d", k.Topic, k.Partition) }
