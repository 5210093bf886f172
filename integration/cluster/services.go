package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/sluice"
)

// ofEach is how many processes there are of each service.
const ofEach = 2

// Services is a cluster in which every service is a process of its own, two of
// each, beside an etcd: what Kubernetes would run. HTTP goes to the first gateway,
// gRPC and the binary protocol to the second.
type Services struct {
	Storages, Coordinators, Registries [ofEach]*Service
	Gateways                           [ofEach]*Gateway
	Etcd                               *Etcd

	dataDir string
}

var _ Server = (*Services)(nil)

// NewServices sets up a cluster, which ends with the test. It starts nothing. Each
// process gets those of the flags that it has.
func NewServices(t testing.TB, o Options) *Services {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	s := &Services{dataDir: o.DataDir, Etcd: newEtcd(t, o.DataDir)}
	for i := range ofEach {
		s.Storages[i] = s.newService(t, o, sluice.Storage, i)
		s.Coordinators[i] = s.newService(t, o, sluice.Coordinator, i)
		s.Registries[i] = s.newService(t, o, sluice.Registry, i)
		d := newDoors(t, o)
		s.Gateways[i] = &Gateway{s.newService(t, o, sluice.Gateway, i, d.flags()...), d}
	}
	own(t, s)
	return s
}

func (s *Services) newService(t testing.TB, o Options, role sluice.Role, i int, flags ...string) *Service {
	p := &Service{Name: fmt.Sprintf("%s-%d", role, i+1)}
	p.binary = Binary(t)
	p.args = append([]string{
		string(role), "--node-id", p.Name, "--data-dir", filepath.Join(s.dataDir, p.Name),
		// Another address after each start: what comes back is found by its row alone.
		"--etcd-endpoints", s.Etcd.client, "--bind-internal", "127.0.0.1:0",
	}, flags...)
	p.args = append(p.args, flagsOf(t, role, o.Flags)...)
	return p
}

// flagsOf are those of `sluice serve` that the subcommand of a role has too.
func flagsOf(t testing.TB, role sluice.Role, flags []string) []string {
	register := func(roles ...sluice.Role) *pflag.FlagSet {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		sluice.NewConfig(roles...).RegisterFlags(fs)
		return fs
	}
	all, its := register(sluice.AllRoles()...), register(role)
	require.NoError(t, all.Parse(flags))
	var kept []string
	all.Visit(func(f *pflag.Flag) {
		switch list, isList := f.Value.(pflag.SliceValue); {
		case its.Lookup(f.Name) == nil:
		case isList:
			for _, value := range list.GetSlice() {
				kept = append(kept, "--"+f.Name+"="+value)
			}
		default:
			kept = append(kept, "--"+f.Name+"="+f.Value.String())
		}
	})
	return kept
}

// All are the processes of the services, those that others stand on first.
func (s *Services) All() []*Service {
	var all []*Service
	for _, some := range [][ofEach]*Service{s.Storages, s.Coordinators, s.Registries} {
		all = append(all, some[:]...)
	}
	for _, g := range s.Gateways {
		all = append(all, g.Service)
	}
	return all
}

// Start starts etcd and then all services at once, and waits until all are ready.
func (s *Services) Start(ctx context.Context) error {
	if err := s.Etcd.Start(ctx); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	errs := make([]error, len(s.All()))
	var starting sync.WaitGroup
	for i, p := range s.All() {
		starting.Go(func() { errs[i] = p.Start(ctx) })
	}
	starting.Wait()
	return errors.Join(errs...)
}

// Stop stops all services cleanly, the gateways first, and then etcd.
func (s *Services) Stop() error {
	var errs []error
	all := s.All()
	for i := len(all) - 1; i >= 0; i-- {
		if err := all[i].Stop(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", all[i].Name, err))
		}
	}
	s.Etcd.Kill()
	return errors.Join(errs...)
}

// Roll kills one service after the other, and starts each again before the next
// one goes.
func (s *Services) Roll(t testing.TB) {
	t.Helper()
	for _, p := range s.All() {
		p.Kill()
		Start(t, p)
	}
}

// HTTP is the URL of the first gateway's HTTP API.
func (s *Services) HTTP() string { return s.Gateways[0].HTTP() }

// GRPC is the address of the second gateway's gRPC API.
func (s *Services) GRPC() string { return s.Gateways[1].GRPC() }

// Binary is the address of the second gateway's binary protocol.
func (s *Services) Binary() string { return s.Gateways[1].Binary() }

// DataDir has a folder for each process.
func (s *Services) DataDir() string { return s.dataDir }

// Log is the end of what each process has logged.
func (s *Services) Log() string {
	var text strings.Builder
	for _, p := range s.All() {
		fmt.Fprintf(&text, "-- %s\n%s", p.Name, p.Log())
	}
	return text.String()
}

// Service is the process of one service.
type Service struct {
	program
	// Name is its node's id.
	Name string
}

// Start starts the process and waits until it says that it is ready.
func (p *Service) Start(ctx context.Context) error {
	said := &greeting{to: &p.log, done: make(chan struct{})}
	if err := p.launch(said); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	err := p.awaitReady(ctx, func(context.Context) bool {
		select {
		case <-said.done:
			return true
		default:
			return false
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// Gateway is the process of a gateway.
type Gateway struct {
	*Service
	doors
}

// greeting waits for what a service says on its standard output once it is ready.
type greeting struct {
	to   io.Writer
	said bytes.Buffer
	// Closed once it was said.
	done chan struct{}
	over bool
}

func (g *greeting) Write(p []byte) (int, error) {
	if !g.over {
		g.said.Write(p)
		if g.over = bytes.Contains(g.said.Bytes(), []byte("sluice is ready: ")); g.over {
			close(g.done)
		}
	}
	return g.to.Write(p)
}
