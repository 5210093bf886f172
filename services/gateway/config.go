package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/pflag"
)

// Config is the configuration of a gateway.
type Config struct {
	// Bind is the host:port of the HTTP door; empty is none.
	Bind string
	// BindGRPC is the host:port of the gRPC door; empty is none.
	BindGRPC string
	// BindBinary is the host:port of the binary protocol; empty is none.
	BindBinary string

	// TLSCert and TLSKey are PEM files; with them every door speaks TLS, and the
	// files are followed as they change. Both or neither.
	TLSCert, TLSKey string

	// Authenticated says that callers need a key. It is no flag here: the
	// registry's --auth decides it.
	Authenticated bool
	// AllowRemoteUnauthenticated lets other machines in although callers need no
	// key: whoever reaches the port may read, write and delete everything.
	AllowRemoteUnauthenticated bool
	// AllowedHosts are names, beside localhost and the bound one, that a Host
	// header may have while callers need no key.
	AllowedHosts []string
	// CORSOrigins are the origins whose pages may use the API.
	CORSOrigins []string

	// MaxRequestBodyBytes limits the body of one request.
	MaxRequestBodyBytes int64
	// MaxInflightBodyBytes limits the bodies of all requests under way, and apart
	// from them those of all answers that clients have not taken. A request takes up
	// to three times its body in memory: the body, its records, and the batches made
	// of them; so does an answer until it is encoded. More requests wait, and after
	// two seconds get 503.
	MaxInflightBodyBytes int64
	// MaxRecordBytes limits key and value of one record together.
	MaxRecordBytes int
	// MaxFetchRecords limits the records that one request reads.
	MaxFetchRecords int
	// MaxFetchBytes limits the keys and values that one request reads, but for a
	// first record that is larger.
	MaxFetchBytes int

	// MaxConnections limits the connections to the HTTP door, and as many to the gRPC
	// door; more wait to be accepted. 0 is an eighth of the process's open-files
	// limit, which the files of partitions need too.
	MaxConnections int
	// BinaryMaxConnectionsPerIP limits the connections of one address to the
	// binary protocol; 0 is without limit. An idle one takes some 8 KiB.
	BinaryMaxConnectionsPerIP int
	// BinaryIdleTimeout ends a connection of the binary protocol on which nothing
	// happens.
	BinaryIdleTimeout time.Duration

	// RequestTimeout is how long a request may take, beside what it asked to wait
	// for records.
	RequestTimeout time.Duration
	// LeaderWait is how long a request waits for a partition's leader or for a
	// coordinator before it gets 503. Longer rides out elections; shorter lets
	// callers know sooner.
	LeaderWait time.Duration
	// StopGrace is how long requests under way may take to end at a stop.
	StopGrace time.Duration

	// DefaultSegmentBytes is the segment_bytes that is shown of a topic that does
	// not set it. It is no flag here: storage's --segment-bytes decides it. 0 is
	// Kafka's 1 GiB.
	DefaultSegmentBytes int64
}

// RegisterFlags adds the flags of the service and sets the defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Bind, "bind", "127.0.0.1:9000", "`address` of the HTTP API; empty for none")
	fs.StringVar(&c.BindGRPC, "bind-grpc", "127.0.0.1:9090", "`address` of the gRPC API; empty for none")
	fs.StringVar(&c.BindBinary, "bind-binary", "", "`address` of the binary protocol, such as 127.0.0.1:9001; empty for none")
	fs.StringVar(&c.TLSCert, "tls-cert", "", "PEM `file` with the certificate, and those that lead to its issuer; with --tls-key every door speaks TLS")
	fs.StringVar(&c.TLSKey, "tls-key", "", "PEM `file` with the key of --tls-cert")
	fs.BoolVar(&c.AllowRemoteUnauthenticated, "allow-remote-unauthenticated", false,
		"let other machines in although callers need no key: they may do everything")
	fs.StringArrayVar(&c.AllowedHosts, "allowed-host", nil,
		"`name` of this machine that requests may be sent to while callers need no key, beside localhost and the bound one (repeatable)")
	fs.StringArrayVar(&c.CORSOrigins, "cors-origin", nil, "`origin` whose web pages may use the HTTP API, such as https://ui.example (repeatable)")
	fs.Int64Var(&c.MaxRequestBodyBytes, "max-request-body-bytes", 10<<20, "most `bytes` of one request's body")
	fs.Int64Var(&c.MaxInflightBodyBytes, "max-inflight-body-bytes", 256<<20, "most `bytes` of the bodies of all requests under way, and as many of answers")
	fs.IntVar(&c.MaxRecordBytes, "max-record-bytes", 8<<20, "most `bytes` of one record's key and value")
	fs.IntVar(&c.MaxFetchRecords, "max-fetch-records", 10_000, "most `records` that one request reads")
	fs.IntVar(&c.MaxFetchBytes, "max-fetch-bytes", 8<<20, "most `bytes` of keys and values that one request reads")
	fs.IntVar(&c.MaxConnections, "max-connections", 0, "most `connections` to the HTTP API, and as many to the gRPC API; 0: an eighth of the open-files limit each")
	fs.IntVar(&c.BinaryMaxConnectionsPerIP, "binary-max-connections-per-ip", 1024, "most `connections` of one address to the binary protocol; 0 for any number")
	fs.DurationVar(&c.BinaryIdleTimeout, "binary-idle-timeout", 10*time.Minute, "how long a connection of the binary protocol may be idle")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", 30*time.Second, "how long a request may take, beside what it asked to wait for records")
	fs.DurationVar(&c.LeaderWait, "leader-wait", 5*time.Second, "how long a request waits for a leader before it fails")
	fs.DurationVar(&c.StopGrace, "stop-grace", 5*time.Second, "how long requests under way may take to end at a stop")
}

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	for _, door := range []struct{ flag, address string }{{"--bind", c.Bind}, {"--bind-grpc", c.BindGRPC}, {"--bind-binary", c.BindBinary}} {
		if door.address == "" {
			continue
		}
		host, _, err := net.SplitHostPort(door.address)
		switch {
		case err != nil:
			fault("%s must be host:port, got %q", door.flag, door.address)
		case !c.Authenticated && !c.AllowRemoteUnauthenticated && !loopback(host):
			fault("%s %s lets other machines in while callers need no key: bind a loopback address, or accept it with --allow-remote-unauthenticated",
				door.flag, door.address)
		}
	}
	if c.Bind == "" && c.BindGRPC == "" && c.BindBinary == "" {
		fault("one of --bind, --bind-grpc and --bind-binary must be given")
	}
	if c.MaxConnections < 0 {
		fault("--max-connections must be 0 or more, got %d", c.MaxConnections)
	}
	if c.BinaryMaxConnectionsPerIP < 0 {
		fault("--binary-max-connections-per-ip must be 0 or more, got %d", c.BinaryMaxConnectionsPerIP)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		fault("--tls-cert and --tls-key must be given together")
	}
	for _, origin := range c.CORSOrigins {
		if !validOrigin(origin) {
			fault("--cors-origin must be scheme://host[:port], got %q", origin)
		}
	}
	for _, limit := range []struct {
		flag  string
		value int64
		most  int64
	}{
		{"--max-request-body-bytes", c.MaxRequestBodyBytes, 1 << 30},
		{"--max-inflight-body-bytes", c.MaxInflightBodyBytes, 1 << 40},
		{"--max-record-bytes", int64(c.MaxRecordBytes), 1 << 30},
		{"--max-fetch-records", int64(c.MaxFetchRecords), 1 << 20},
		{"--max-fetch-bytes", int64(c.MaxFetchBytes), 1 << 30},
	} {
		if limit.value < 1 || limit.value > limit.most {
			fault("%s must be between 1 and %d, got %d", limit.flag, limit.most, limit.value)
		}
	}
	if c.MaxInflightBodyBytes <= c.MaxRequestBodyBytes {
		fault("--max-inflight-body-bytes %d must be more than --max-request-body-bytes %d", c.MaxInflightBodyBytes, c.MaxRequestBodyBytes)
	}
	if c.MaxInflightBodyBytes < int64(c.MaxFetchBytes) {
		fault("--max-inflight-body-bytes %d must be at least --max-fetch-bytes %d", c.MaxInflightBodyBytes, c.MaxFetchBytes)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"--request-timeout", c.RequestTimeout}, {"--leader-wait", c.LeaderWait}, {"--stop-grace", c.StopGrace},
		{"--binary-idle-timeout", c.BinaryIdleTimeout},
	} {
		if d.value <= 0 {
			fault("%s must be more than 0, got %s", d.flag, d.value)
		}
	}
	return errors.Join(faults...)
}

// loopback says whether only this machine reaches a host. Names other than
// localhost are not looked up: what they resolve to may change.
func loopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "localhost"
}

func validOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && origin == u.Scheme+"://"+u.Host && (u.Scheme == "http" || u.Scheme == "https")
}
