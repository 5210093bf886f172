package sluice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/sluiceio/sluice/services/kit/certs"
)

// InternalTLS has the nodes of a cluster show each other certificates. Whoever has
// one that the authority signed may do everything, as a node may.
type InternalTLS struct {
	// Cert and Key are PEM files, followed as they change. Both or neither.
	Cert, Key string
	// CA is a PEM file with the authorities of all nodes' certificates, read at the
	// start.
	CA string
	// ServerName is what the nodes' certificates are for; empty is the host of the
	// address at which a node is reached.
	ServerName string
}

func (t *InternalTLS) registerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.Cert, "internal-tls-cert", "", "PEM `file` with the certificate that this node shows to others, as server and as client")
	fs.StringVar(&t.Key, "internal-tls-key", "", "PEM `file` with the key of --internal-tls-cert")
	fs.StringVar(&t.CA, "internal-tls-ca", "", "PEM `file` with the authorities of the nodes' certificates: nobody else is let in at --bind-internal")
	fs.StringVar(&t.ServerName, "internal-tls-server-name", "", "`name` that the nodes' certificates are for (default: the host at which a node is reached)")
}

// on reports whether nodes are to show certificates.
func (t *InternalTLS) on() bool { return t.Cert != "" && t.Key != "" && t.CA != "" }

func (t *InternalTLS) validate(clustered bool) error {
	none := *t == InternalTLS{}
	switch {
	case none:
		return nil
	case !clustered:
		return errors.New("--internal-tls-… without --etcd-endpoints: there are no other nodes")
	case !t.on():
		return errors.New("--internal-tls-cert, --internal-tls-key and --internal-tls-ca must be given together")
	}
	return nil
}

// internalCredentials are those of connections between nodes; nil is plain TCP.
type internalCredentials struct {
	server, client credentials.TransportCredentials
	// follow reads the files again as they change.
	follow func(ctx context.Context) error
}

func (t *InternalTLS) load(logger *slog.Logger) (internalCredentials, error) {
	if !t.on() {
		return internalCredentials{}, nil
	}
	pair, err := certs.Load(certs.Files{Cert: t.Cert, Key: t.Key, Flag: "--internal-tls"}, logger)
	if err != nil {
		return internalCredentials{}, err
	}
	authorities, err := certs.Authorities(t.CA)
	if err != nil {
		return internalCredentials{}, fmt.Errorf("--internal-tls-ca: %w", err)
	}
	server, client := pair.Peers(authorities, t.ServerName)
	for _, config := range []*tls.Config{server, client} {
		config.NextProtos = []string{"h2"}
	}
	return internalCredentials{credentials.NewTLS(server), credentials.NewTLS(client), pair.Run}, nil
}
