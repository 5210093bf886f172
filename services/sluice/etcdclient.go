package sluice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/sluice/internal/zapslog"
)

const (
	etcdDialTimeout      = 5 * time.Second
	etcdKeepAliveTime    = 5 * time.Second
	etcdKeepAliveTimeout = 3 * time.Second
)

// Etcd is where the cluster's etcd is, and how to be let in.
type Etcd struct {
	// Endpoints are its addresses. Without any the node runs an etcd of its own,
	// and is a cluster of one.
	Endpoints []string
	// CA is a PEM file with the authorities of etcd's certificates: then the
	// connections are TLS. Cert and Key are the node's own, both or neither.
	CA, Cert, Key string
	// Username and the file with its password, both or neither.
	Username, PasswordFile string
}

func (e *Etcd) registerFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&e.Endpoints, "etcd-endpoints", nil, "`addresses` of the cluster's etcd; without any this node runs its own and is a cluster of one")
	fs.StringVar(&e.CA, "etcd-tls-ca", "", "PEM `file` with the authorities of etcd's certificates; etcd is spoken to over TLS with it")
	fs.StringVar(&e.Cert, "etcd-tls-cert", "", "PEM `file` with the certificate that this node shows to etcd")
	fs.StringVar(&e.Key, "etcd-tls-key", "", "PEM `file` with the key of --etcd-tls-cert")
	fs.StringVar(&e.Username, "etcd-username", "", "`name` of the node's user in etcd")
	fs.StringVar(&e.PasswordFile, "etcd-password-file", "", "`file` with the password of --etcd-username")
}

func (e *Etcd) validate() error {
	var faults []error
	expect := func(ok bool, text string) {
		if !ok {
			faults = append(faults, errors.New(text))
		}
	}
	if len(e.Endpoints) == 0 {
		expect(e.CA == "" && e.Cert == "" && e.Key == "" && e.Username == "" && e.PasswordFile == "",
			"--etcd-… without --etcd-endpoints: the node's own etcd has no address")
		return errors.Join(faults...)
	}
	expect((e.Cert == "") == (e.Key == ""), "--etcd-tls-cert and --etcd-tls-key must be given together")
	expect(e.Cert == "" || e.CA != "", "--etcd-tls-cert needs --etcd-tls-ca")
	expect((e.Username == "") == (e.PasswordFile == ""), "--etcd-username and --etcd-password-file must be given together")
	return errors.Join(faults...)
}

// client makes a client, which connects when it is used; with a password it waits
// until etcd has looked at that, or until ctx ends.
func (e *Etcd) client(ctx context.Context, logger *slog.Logger) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:            e.Endpoints,
		DialTimeout:          etcdDialTimeout,
		DialKeepAliveTime:    etcdKeepAliveTime,
		DialKeepAliveTimeout: etcdKeepAliveTimeout,
		Username:             e.Username,
		Logger:               zapslog.New(logger),
	}
	if e.CA != "" {
		// Reads the pair again for each connection.
		info := transport.TLSInfo{TrustedCAFile: e.CA, CertFile: e.Cert, KeyFile: e.Key}
		var err error
		if config.TLS, err = info.ClientConfig(); err != nil {
			return nil, fmt.Errorf("--etcd-tls-…: %w", err)
		}
	}
	if e.PasswordFile != "" {
		password, err := os.ReadFile(e.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-password-file: %w", err)
		}
		config.Password = strings.TrimRight(string(password), "\r\n")
	}
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	for {
		client, err := clientv3.New(config)
		if err == nil {
			return client, nil
		}
		if !unanswered(err) || wait.Wait(ctx) != nil {
			return nil, fmt.Errorf("--etcd-endpoints: %w", err)
		}
		logger.Warn("etcd does not answer, trying again", "err", err)
	}
}

// unanswered says that etcd was not there, or too busy to answer.
func unanswered(err error) bool {
	// The errors of etcd itself have a code and are no statuses of gRPC.
	var answered interface{ Code() codes.Code }
	if errors.As(err, &answered) {
		return answered.Code() == codes.Unavailable
	}
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.Unavailable
}
