package binary

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// An Option changes how a client is set up.
type Option interface{ apply(*options) }

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

type options struct {
	address        string
	token          string
	gzip           bool
	tls            *tls.Config
	dial           func(ctx context.Context, network, address string) (net.Conn, error)
	connectTimeout time.Duration
	requestTimeout time.Duration
	attempts       int
	maxFrame       int
	inFlight       int
}

// WithToken gives the secret of an API key.
func WithToken(secret string) Option { return optionFunc(func(o *options) { o.token = secret }) }

// WithGzip asks for compressed payloads, both ways.
func WithGzip() Option { return optionFunc(func(o *options) { o.gzip = true }) }

// WithTLS speaks TLS. A config without a ServerName takes it from the address;
// nil is the default config.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return optionFunc(func(o *options) { o.tls = config.Clone() })
}

// WithDialer makes connections in another way than net.Dialer. The function has to
// return when its context ends, for which Close waits.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return optionFunc(func(o *options) { o.dial = dial })
}

// WithConnectTimeout limits one attempt to connect, handshakes included; 10 s
// without it.
func WithConnectTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.connectTimeout = d })
}

// WithRequestTimeout is how long a connection may leave requests without any
// answer before it is given up; 60 s without it.
func WithRequestTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.requestTimeout = d })
}

// WithAttempts is how often in a row a connection is tried before requests fail,
// and how often a request that can be repeated is; 8 without it, which takes some
// 10 s.
func WithAttempts(n int) Option { return optionFunc(func(o *options) { o.attempts = n }) }

// WithMaxFrame limits the payload of an answer, compressed or not; 64 MiB without
// it.
func WithMaxFrame(bytes int) Option { return optionFunc(func(o *options) { o.maxFrame = bytes }) }

// WithInFlight is how many requests of a Pipelined may be unanswered; 32 without
// it, which is how many a server runs at once. More wait at the server's door, so
// that it never waits for the client.
func WithInFlight(n int) Option { return optionFunc(func(o *options) { o.inFlight = n }) }

func newOptions(address string, given []Option) (*options, error) {
	o := &options{
		address:        address,
		dial:           (&net.Dialer{}).DialContext,
		connectTimeout: 10 * time.Second,
		requestTimeout: 60 * time.Second,
		attempts:       8,
		maxFrame:       64 << 20,
		inFlight:       32,
	}
	for _, option := range given {
		option.apply(o)
	}
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the address must be host:port, got %q", ErrInvalid, address)
	case len(o.token) > maxToken:
		return nil, fmt.Errorf("%w: a token has at most %d bytes, got %d", ErrInvalid, maxToken, len(o.token))
	case o.connectTimeout <= 0 || o.requestTimeout <= 0:
		return nil, fmt.Errorf("%w: timeouts must be more than 0", ErrInvalid)
	case o.attempts < 1 || o.inFlight < 1 || o.maxFrame < 1:
		return nil, fmt.Errorf("%w: attempts, requests in flight and the largest frame must be 1 or more", ErrInvalid)
	case o.dial == nil:
		return nil, fmt.Errorf("%w: the dialer is nil", ErrInvalid)
	}
	if o.tls != nil && o.tls.ServerName == "" {
		o.tls.ServerName = host
	}
	return o, nil
}
