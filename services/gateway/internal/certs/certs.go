// Package certs is the certificate that the doors show, followed as its files
// change.
//
// The files are read again every second and compared byte by byte. That sees
// whatever may happen to them, also the swap of a symlink that Kubernetes does,
// files of the same size and time, and a file system that tells nobody; and two
// small reads a second cost nothing. A pair that does not fit, as between the
// replacement of the one file and the other, is noted in the log once and tried
// again; until then the doors show what they had.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// interval is how often the files are read.
const interval = time.Second

// Pair is a certificate and its key, in two PEM files.
type Pair struct {
	certFile, keyFile string
	logger            *slog.Logger
	interval          time.Duration
	current           atomic.Pointer[loaded]
}

// loaded is what the files had when they were last good.
type loaded struct {
	certPEM, keyPEM []byte
	certificate     *tls.Certificate
}

// Load reads the files for the first time; they have to be good.
func Load(certFile, keyFile string, logger *slog.Logger) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile, logger: logger, interval: interval}
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
		l, err := p.read(p.current.Load())
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			p.logger.ErrorContext(ctx, "the new certificate cannot be used, the doors keep the old one", "error", err)
		case err == nil && l != nil:
			p.current.Store(l)
			p.logger.InfoContext(ctx, "the doors have a new certificate", "expires", l.certificate.Leaf.NotAfter)
		}
		if err == nil {
			last = ""
		}
	}
}

// read returns what the files have, nil when that is what is known.
func (p *Pair) read(known *loaded) (*loaded, error) {
	certPEM, err := os.ReadFile(p.certFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	keyPEM, err := os.ReadFile(p.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-key: %w", err)
	}
	if known != nil && bytes.Equal(certPEM, known.certPEM) && bytes.Equal(keyPEM, known.keyPEM) {
		return nil, nil
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", p.certFile, p.keyFile, err)
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
