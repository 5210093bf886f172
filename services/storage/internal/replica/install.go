package replica

import (
	"errors"

	"go.etcd.io/raft/v3"
)

func (r *Replica) install(raft.Ready) error { return errors.New("not yet") }
