// Package certs is a certificate that a process shows, followed as its files
// change.
//
// The files are read again every second and compared byte by byte. That sees
// whatever may happen to them, also the swap of a symlink that Kubernetes does,
// files of the same size and time, and a file system that tells nobody; and two
// small reads a second cost nothing. A pair that does not fit, as between the
// replacement of the one file and the other, is noted in the log once and tried
// again; until then the process shows what it had.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/services/kit/confine"
)

// interval is how often the files are read.
const interval = time.Second

// Files are two PEM files.
type Files struct {
	// Cert has the certificate, and those that lead to its issuer; Key its key.
	Cert, Key string
	// Flag is what the names of the options begin with that name the files, such as
	// "--tls" for --tls-cert and --tls-key: errors and logs tell them.
	Flag string
}

// Pair is a certificate and its key.
type Pair struct {
	files    Files
	logger   *slog.Logger
	interval time.Duration
	current  atomic.Pointer[loaded]
}

// loaded is what the files had when they were last good.
type loaded struct {
	certPEM, keyPEM []byte
	certificate     *tls.Certificate
}

// Load reads the files for the first time; they have to be good.
func Load(files Files, logger *slog.Logger) (*Pair, error) {
	p := &Pair{files: files, logger: logger, interval: interval}
	l, err := p.read(nil)
	if err != nil {
		return nil, err
	}
	p.current.Store(l)
	return p, nil
}

// Run follows the files until ctx ends.
func (p *Pair) Run(ctx context.Context) error {
	again := time.NewTicker(p.interval)
	defer again.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		var l *loaded
		err := confine.Attempt(ctx, p.logger, func() (err error) {
			l, err = p.read(p.current.Load())
			return err
		})
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			p.logger.ErrorContext(ctx, "the new certificate cannot be used, the old one stays", "option", p.files.Flag+"-cert", "error", err)
		case err == nil && l != nil:
			p.current.Store(l)
			p.logger.InfoContext(ctx, "there is a new certificate", "option", p.files.Flag+"-cert", "expires", l.certificate.Leaf.NotAfter)
		}
		if err == nil {
			last = ""
		}
	}
}

// read returns what the files have, nil when that is what is known.
func (p *Pair) read(known *loaded) (*loaded, error) {
	certPEM, err := os.ReadFile(p.files.Cert)
	if err != nil {
		return nil, fmt.Errorf("%s-cert: %w", p.files.Flag, err)
	}
	keyPEM, err := os.ReadFile(p.files.Key)
	if err != nil {
		return nil, fmt.Errorf("%s-key: %w", p.files.Flag, err)
	}
	if known != nil && bytes.Equal(certPEM, known.certPEM) && bytes.Equal(keyPEM, known.keyPEM) {
		return nil, nil
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%[1]s-cert %[2]s and %[1]s-key %[3]s: %[4]w", p.files.Flag, p.files.Cert, p.files.Key, err)
	}
	return &loaded{certPEM, keyPEM, &certificate}, nil
}

// Config returns what a listener needs, for one or several protocols to be
// negotiated ("h2", "http/1.1"); without any, none is. Connections that are open
// keep the certificate that they began with.
func (p *Pair) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.current.Load().certificate, nil
		},
	}
}

// Peers returns what processes need that show each other their certificates, of
// which each is signed by one of the authorities: as a server, which lets nobody
// else in, and as a client. serverName is what the servers' certificates are for;
// empty is the host that was dialled.
func (p *Pair) Peers(authorities *x509.CertPool, serverName string) (server, client *tls.Config) {
	server = p.Config()
	server.MinVersion = tls.VersionTLS13
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.ClientCAs = authorities
	client = &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    authorities,
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return p.current.Load().certificate, nil
		},
	}
	return server, client
}

// Authorities reads certificates from a PEM file, at least one.
func Authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: expected PEM with at least one certificate", file)
	}
	return pool, nil
}
