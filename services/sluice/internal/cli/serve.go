package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/services/kit/conf"
	"github.com/sluiceio/sluice/services/kit/headroom"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

func newServe() *cobra.Command {
	command := newNode("serve", sluice.AllRoles()...)
	command.Short = "Run all services in one process"
	command.Long = "Runs all services in one process, with an etcd of its own in the data directory.\n" +
		"With --etcd-endpoints it is one node of a cluster."
	command.Example = "  sluice serve --data-dir /var/lib/sluice"
	return command
}

// newRole returns the command that runs one service as a process of its own.
func newRole(role sluice.Role, short string) *cobra.Command {
	command := newNode(string(role), role)
	command.Short = short
	return command
}

// newNode returns a command that runs a node with roles. Its options come from
// flags, the environment and a file alike.
func newNode(use string, roles ...sluice.Role) *cobra.Command {
	cfg := sluice.NewConfig(roles...)
	command := &cobra.Command{
		Use:  use,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			began := time.Now()
			if err := conf.Load(command, os.Environ()); err != nil {
				return &usageError{err}
			}
			if err := cfg.Validate(); err != nil {
				return &usageError{err}
			}
			logger := obs.NewLogger(cfg.Obs, command.ErrOrStderr())
			obs.LogGRPC(logger)
			logger.LogAttrs(command.Context(), slog.LevelInfo, "starting",
				append([]slog.Attr{slog.String("version", readVersion().String())}, conf.Dump(command.Flags())...)...)
			return runNode(command.Context(), *cfg, logger, command.OutOrStdout(), began)
		},
	}
	conf.RegisterFlags(command.Flags())
	cfg.RegisterFlags(command.Flags())
	conf.HoldFaults(command)
	// What cobra cannot read ends its reading, and is told with all else.
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return errors.Join(err, conf.Load(command, os.Environ()))
	})
	return command
}

func runNode(ctx context.Context, cfg sluice.Config, logger *slog.Logger, out io.Writer, began time.Time) error {
	// Whoever sets GOGC has decided already.
	if os.Getenv("GOGC") == "" {
		headroom.Keep(headroom.OfService)
	}
	node, err := sluice.New(ctx, cfg, sluice.Deps{Logger: logger, Registry: obs.NewRegistry()})
	if err != nil {
		return err
	}
	err = node.Run(ctx, func() {
		logger.InfoContext(ctx, "ready", "took", time.Since(began).Round(time.Millisecond).String())
		greet(out, node, cfg)
	})
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "stopped cleanly")
	return nil
}

// greet tells where the node is reached and what to try next.
func greet(out io.Writer, node *sluice.Node, cfg sluice.Config) {
	doors := make(map[string]string)
	for door, address := range node.Doors() {
		doors[door] = reachable(address)
	}
	fmt.Fprintf(out, "sluice is ready: node %s\n", node.ID())
	if grpc := doors["grpc"]; grpc != "" {
		fmt.Fprintf(out, "  gRPC       %s\n", grpc)
	}
	if binary := doors["binary"]; binary != "" {
		fmt.Fprintf(out, "  binary     %s\n", binary)
	}
	http := doors["http"]
	if http == "" {
		return
	}
	url, curl := "http://"+http, "curl -s"
	if cfg.Gateway.TLSCert != "" {
		url, curl = "https://"+http, "curl -s --cacert "+shellWord(cfg.Gateway.TLSCert)
	}
	fmt.Fprintf(out, "  HTTP/JSON  %s\n", url)
	if cfg.Gateway.Authenticated {
		key := filepath.Join(cfg.DataDir, "bootstrap.key")
		curl += ` -H "X-Es-Key: $(cat ` + shellWord(key) + `)"`
		if _, err := os.Stat(key); err == nil {
			fmt.Fprintf(out, "\nThe first administrator's key is in %s. Make real ones with it, then\ndelete the file.\n", key)
		}
	}
	fmt.Fprintf(out, `
Try, in another terminal:

  %[2]s -X POST %[1]s/topics -H 'content-type: application/json' \
    -d '{"name":"orders","partitions":2}'
  %[2]s -X POST %[1]s/topics/orders/produce -H 'content-type: application/json' \
    -d '{"records":[{"key":"user-1","value":"checkout"},{"key":"user-2","value":"signup"}]}'
  %[2]s '%[1]s/topics/orders/consume?partition=0&offset=0'

`, url, curl)
}

// reachable is how a client on this machine gets to an address that is listened on.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip, parseErr := netip.ParseAddr(host); err == nil && parseErr == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// shellWord quotes a path for a shell where that is needed.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(plainInShell, r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%"
