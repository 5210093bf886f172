package cluster

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sluiceio/sluice/integration/loopback"
)

// Etcd is an etcd of one member, as a process of its own.
type Etcd struct {
	program
	client string
}

func newEtcd(t testing.TB, dir string) *Etcd {
	e := &Etcd{program: program{binary: EtcdBinary(t)}, client: loopback.FreeAddress(t)}
	client, peer := "http://"+e.client, "http://"+loopback.FreeAddress(t)
	e.args = []string{
		"--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default=" + peer,
		// Ready in a tenth of the time; and it outlives crashes of the process alone.
		"--heartbeat-interval", "10", "--election-timeout", "100", "--unsafe-no-fsync",
		"--log-level", "error",
	}
	return e
}

// Start starts etcd and waits until it has a leader.
func (e *Etcd) Start(ctx context.Context) error {
	if err := e.Launch(); err != nil {
		return err
	}
	return e.awaitReady(ctx, answers("http://"+e.client+"/health"))
}
