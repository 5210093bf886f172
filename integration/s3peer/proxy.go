package s3peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/loopback"
)

// Fault is what a proxy does to a request. The zero value is nothing.
type Fault struct {
	// Status answers the request in the server's place, with S3's error for it.
	Status int
	// Delay is how long the request is held up first.
	Delay time.Duration
	// BytesPerSecond slows bodies down, both ways.
	BytesPerSecond int
	// CutRequest ends the request half way through its body, CutAnswer the answer.
	CutRequest, CutAnswer bool
	// Lost has the request done and the connection closed instead of an answer.
	Lost bool
}

// Proxy stands before a server. Its address stays the same while it is down.
type Proxy struct {
	to      *url.URL
	address string
	server  *http.Server
	served  chan error
	// Faults of requests, counted by kind.
	faults atomic.Pointer[func(r *http.Request) Fault]
	seen   atomic.Int64
	hit    atomic.Int64
}

// NewProxy returns a proxy that is up, and ends with the test.
func NewProxy(t testing.TB, to *Server) *Proxy {
	t.Helper()
	target, err := url.Parse(to.URL())
	require.NoError(t, err)
	p := &Proxy{to: target}
	p.Set(nil)
	// Not one of the ports that systems give to connections: while the proxy is down,
	// whoever tries to reach it might get the very port, and meet itself.
	p.address = loopback.FreeAddress(t)
	listener, err := net.Listen("tcp", p.address)
	require.NoError(t, err)
	p.serve(listener)
	t.Cleanup(func() { p.Down(t) })
	return p
}

// URL is the proxy as an endpoint.
func (p *Proxy) URL() string { return "http://" + p.address }

// Set says what happens to requests from now on; nil is nothing.
func (p *Proxy) Set(faults func(r *http.Request) Fault) {
	if faults == nil {
		faults = func(*http.Request) Fault { return Fault{} }
	}
	p.faults.Store(&faults)
	p.seen.Store(0)
	p.hit.Store(0)
}

// Seen is how many requests came since Set.
func (p *Proxy) Seen() int64 { return p.seen.Load() }

// Hit is how many of them something was done to.
func (p *Proxy) Hit() int64 { return p.hit.Load() }

// Down closes the proxy: all connections break, new ones are refused.
func (p *Proxy) Down(t testing.TB) {
	t.Helper()
	if p.server == nil {
		return
	}
	if err := p.server.Close(); err != nil {
		t.Errorf("close the proxy: %v", err)
	}
	if err := <-p.served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("proxy: %v", err)
	}
	p.server = nil
}

// Up opens it again.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", p.address)
	require.NoError(t, err)
	p.serve(listener)
}

func (p *Proxy) serve(listener net.Listener) {
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	forward := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = p.to.Scheme, p.to.Host
			// The host is signed.
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			fault, _ := r.Request.Context().Value(faultKey{}).(Fault)
			if fault.Lost {
				return errLost
			}
			r.Body = slow(r.Body, fault.BytesPerSecond)
			if fault.CutAnswer && r.ContentLength > 1 {
				r.Body = &cut{ReadCloser: r.Body, left: r.ContentLength / 2}
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     quiet,
	}
	server := &http.Server{
		ErrorLog: quiet,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.seen.Add(1)
			fault := (*p.faults.Load())(r)
			if fault != (Fault{}) {
				p.hit.Add(1)
			}
			serveWith(w, r, fault, forward)
		}),
	}
	p.server, p.served = server, make(chan error, 1)
	go func(served chan<- error) { served <- server.Serve(listener) }(p.served)
}

type faultKey struct{}

var errLost = errors.New("the answer is lost")

func serveWith(w http.ResponseWriter, r *http.Request, fault Fault, forward http.Handler) {
	if fault.Delay > 0 || fault.BytesPerSecond > 0 {
		// Only once all is read can the server tell that the client has gone. What
		// went on without it would come in after its client has given it up.
		all, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(all))
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if fault.Status != 0 {
		code := map[int]string{http.StatusServiceUnavailable: "SlowDown", http.StatusForbidden: "AccessDenied"}[fault.Status]
		if code == "" {
			code = strings.ReplaceAll(http.StatusText(fault.Status), " ", "")
		}
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>so says the proxy</Message></Error>")
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), faultKey{}, fault))
	r.Body = slow(r.Body, fault.BytesPerSecond)
	if fault.CutRequest {
		if r.ContentLength <= 1 {
			panic(http.ErrAbortHandler)
		}
		r.Body = &cut{ReadCloser: r.Body, left: r.ContentLength / 2}
	}
	forward.ServeHTTP(w, r)
}

// cut is a body that breaks off.
type cut struct {
	io.ReadCloser
	left int64
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errors.New("cut")
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func slow(body io.ReadCloser, bytesPerSecond int) io.ReadCloser {
	if bytesPerSecond == 0 || body == nil || body == http.NoBody {
		return body
	}
	return &throttled{ReadCloser: body, rate: bytesPerSecond, closed: make(chan struct{})}
}

// throttled is a body that comes slowly.
type throttled struct {
	io.ReadCloser
	rate   int
	once   sync.Once
	closed chan struct{}
}

func (s *throttled) Read(p []byte) (int, error) {
	const ticks = 20 // in a second
	timer := time.NewTimer(time.Second / ticks)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closed:
		return 0, errors.New("closed")
	}
	return s.ReadCloser.Read(p[:min(len(p), max(s.rate/ticks, 1))])
}

func (s *throttled) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.ReadCloser.Close()
}
