package sluice

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/registry"
	"github.com/sluiceio/sluice/services/sluice/internal/coldstore"
	"github.com/sluiceio/sluice/services/sluice/internal/datadir"
	"github.com/sluiceio/sluice/services/storage"
)

// defaultInternal is where a node of a cluster listens for the others.
const defaultInternal = "127.0.0.1:9100"

// Config is the configuration of a node.
type Config struct {
	// Roles are the services that the node runs. No flag sets them: they are
	// what the subcommand is about.
	Roles []Role

	// DataDir is the folder that the node keeps everything in. One process at a
	// time.
	DataDir string
	// NodeID is who the node is in its cluster; empty is the id in the data
	// directory, which is made with it.
	NodeID string
	// Rack is where the node stands, for spreading replicas; empty is nowhere in
	// particular.
	Rack string

	Etcd Etcd
	// LeaseTTL is how long the others wait for a node that has died before they
	// do without it.
	LeaseTTL time.Duration

	// BindInternal is where the node listens for other nodes; empty is
	// 127.0.0.1:9100 in a cluster and nothing with an etcd of its own.
	BindInternal string
	// AdvertiseInternal is where other nodes reach it; empty is the address that
	// BindInternal came to.
	AdvertiseInternal string
	InternalTLS       InternalTLS
	// BindMetrics is where the process shows its own metrics, to everybody who
	// reaches it; empty is nowhere.
	BindMetrics string
	Obs         obs.Config
	Storage     storage.Config
	// ColdStorage is where a storage node keeps old segments.
	ColdStorage coldstore.Config
	Coordinator coordinator.Config
	Registry    registry.Config
	Gateway     gateway.Config

	// maxMessage is the flag of Storage.MaxMessageBytes, which follows the
	// gateway's limit unless somebody set it.
	maxMessage *pflag.Flag
}

// NewConfig returns the configuration of a node with roles, before any default.
func NewConfig(roles ...Role) *Config { return &Config{Roles: roles} }

// RegisterFlags registers the flags of the node and of its roles, and sets their
// defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.DataDir, "data-dir", "data", "`folder` that everything is kept in")
	fs.StringVar(&c.NodeID, "node-id", "", "`id` of this node in its cluster; made once and kept in the data directory if absent")
	fs.StringVar(&c.Rack, "rack", "", "`name` of the place where this node stands, for spreading replicas")
	c.Etcd.registerFlags(fs)
	fs.DurationVar(&c.LeaseTTL, "lease-ttl", 10*time.Second, "how long the others wait for a node that has died")
	fs.StringVar(&c.BindInternal, "bind-internal", "", "`address` to listen on for other nodes, with --etcd-endpoints (default "+defaultInternal+")")
	fs.StringVar(&c.AdvertiseInternal, "advertise-internal", "", "`address` at which other nodes reach this one (default: what --bind-internal came to)")
	c.InternalTLS.registerFlags(fs)
	fs.StringVar(&c.BindMetrics, "bind-metrics", "", "`address` at which the process's own metrics are shown, such as 127.0.0.1:9101, for services without doors; empty for none")
	if !roles(c.Roles).has(Gateway) {
		// The gateway's own holds for the internal address too.
		fs.BoolVar(&c.Gateway.AllowRemoteUnauthenticated, "allow-remote-unauthenticated", false,
			"let other machines in although callers need no key: they may do everything")
	}
	if runs := roles(c.Roles); runs.has(Gateway) && !runs.has(Registry) {
		// The registry's own says the same to both.
		c.Registry.RegisterFlags(fs)
	}
	if roles(c.Roles).has(Storage) {
		c.ColdStorage.RegisterFlags(fs)
	}
	c.Obs.RegisterFlags(fs)
	for _, service := range c.services() {
		service.RegisterFlags(fs)
	}
	c.maxMessage = fs.Lookup("max-message-bytes")
}

// serviceConfig is what the configurations of the services have in common.
type serviceConfig interface {
	RegisterFlags(fs *pflag.FlagSet)
	Validate() error
}

// services are the configurations of the node's roles.
func (c *Config) services() []serviceConfig {
	byRole := map[Role]serviceConfig{
		Storage: &c.Storage, Coordinator: &c.Coordinator, Registry: &c.Registry, Gateway: &c.Gateway,
	}
	var services []serviceConfig
	for _, role := range c.Roles {
		services = append(services, byRole[role])
	}
	return services
}

// clustered reports whether there can be other nodes.
func (c *Config) clustered() bool { return len(c.Etcd.Endpoints) > 0 }

// Validate sets what follows from other fields, and reports all faults together.
func (c *Config) Validate() error {
	c.derive()
	var faults []error
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	expect(c.DataDir != "", "--data-dir is empty, expected a path")
	if c.NodeID != "" {
		if err := datadir.ValidateNodeID(c.NodeID); err != nil {
			faults = append(faults, fmt.Errorf("--node-id: %w", err))
		}
	}
	if c.BindMetrics != "" {
		faults = append(faults, c.validateOpen("--bind-metrics", c.BindMetrics))
	}
	expect(c.LeaseTTL >= time.Second, "--lease-ttl is %v, expected 1s or more", c.LeaseTTL)
	faults = append(faults, c.Etcd.validate(), c.InternalTLS.validate(c.clustered()))
	if c.clustered() {
		faults = append(faults, c.validateInternal())
	} else {
		expect(len(c.Roles) == len(AllRoles()), "--etcd-endpoints is missing: a node that runs some of the services finds the others there")
		expect(c.BindInternal == "", "--bind-internal without --etcd-endpoints: there are no other nodes")
		expect(c.AdvertiseInternal == "", "--advertise-internal without --etcd-endpoints: there are no other nodes")
	}
	if runs := roles(c.Roles); runs.has(Storage) && runs.has(Gateway) {
		expect(c.Storage.MaxMessageBytes >= c.Gateway.MaxRecordBytes+batchOverhead,
			"--max-message-bytes is %d, too small for a record of --max-record-bytes, %d", c.Storage.MaxMessageBytes, c.Gateway.MaxRecordBytes)
	}
	if runs := roles(c.Roles); runs.has(Gateway) && !runs.has(Registry) {
		faults = append(faults, c.Registry.Validate())
	}
	faults = append(faults, c.ColdStorage.Validate(c.DataDir))
	faults = append(faults, c.Obs.Validate())
	for _, service := range c.services() {
		faults = append(faults, service.Validate())
	}
	return errors.Join(faults...)
}

// batchOverhead is what a batch of one record takes beside key and value, and
// more.
const batchOverhead = 4 << 10

// derive sets what follows from other fields.
func (c *Config) derive() {
	c.Storage.Dir = filepath.Join(c.DataDir, "storage")
	c.Gateway.Authenticated = c.Registry.Auth == registry.AuthRequired
	c.Gateway.DefaultSegmentBytes = c.Storage.SegmentBytes
	if c.maxMessage != nil && !c.maxMessage.Changed {
		c.Storage.MaxMessageBytes = max(c.Storage.MaxMessageBytes, c.Gateway.MaxRecordBytes+batchOverhead)
	}
}

// maxInternalMessage is the largest message between nodes: an answer that is full
// and has a largest batch besides, as this node's roles may send or ask for it.
func (c *Config) maxInternalMessage() int {
	answer := max(c.Storage.MaxFetchBytes, c.Gateway.MaxFetchBytes)
	batch := max(c.Storage.MaxMessageBytes, c.Gateway.MaxRecordBytes+batchOverhead, int(c.Gateway.MaxRequestBodyBytes))
	return max(rpc.DefaultMaxMessageBytes, answer+batch+1<<20)
}

func (c *Config) validateInternal() error {
	bind := c.bindInternal()
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return fmt.Errorf("--bind-internal %q: expected host:port", bind)
	}
	if c.AdvertiseInternal != "" {
		if _, _, err := net.SplitHostPort(c.AdvertiseInternal); err != nil {
			return fmt.Errorf("--advertise-internal %q: expected host:port", c.AdvertiseInternal)
		}
	}
	address, err := netip.ParseAddr(host)
	everywhere := host == "" || err == nil && address.IsUnspecified()
	if everywhere && c.AdvertiseInternal == "" {
		return fmt.Errorf("--advertise-internal is missing: --bind-internal %s listens on every address, and the others need one", bind)
	}
	if err := c.validateOpen("--bind-internal", bind); err != nil && !c.InternalTLS.on() {
		return fmt.Errorf("%w; so do --internal-tls-cert, -key and -ca, for other nodes alone", err)
	}
	return nil
}

// validateOpen refuses an address where nobody is asked for a key and that other
// machines reach, unless they are let in.
func (c *Config) validateOpen(flag, bind string) error {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return fmt.Errorf("%s %q: expected host:port", flag, bind)
	}
	address, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && address.IsLoopback()
	if !local && !c.Gateway.AllowRemoteUnauthenticated {
		return fmt.Errorf("%s %s is reached from other machines, and nobody is asked for a key there; --allow-remote-unauthenticated allows that", flag, bind)
	}
	return nil
}

func (c *Config) bindInternal() string {
	if c.BindInternal == "" {
		return defaultInternal
	}
	return c.BindInternal
}
