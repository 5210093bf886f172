package cluster

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// readyInterval is how often a server that is not ready yet is asked again.
const readyInterval = 2 * time.Millisecond

var errRuns = errors.New("the server runs already")

// Process is a server as a process, which can be killed.
type Process struct {
	program
	doors
	dataDir string
}

var _ Server = (*Process)(nil)

// NewProcess sets up a process, which ends with the test. It starts none.
func NewProcess(t testing.TB, o Options) *Process {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = filepath.Join(t.TempDir(), "data")
	}
	p := &Process{program: program{binary: Binary(t), env: o.Env}, doors: newDoors(t, o), dataDir: o.DataDir}
	p.args = append([]string{"serve"}, serveFlags(p, o)...)
	own(t, p)
	return p
}

// Start starts the process and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.awaitReady(ctx, answers(p.HTTP()+"/readyz"))
}

// answers says whether a URL answers with 200.
func answers(url string) func(ctx context.Context) bool {
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		transport := &http.Transport{DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		response, err := transport.RoundTrip(request)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
}

// DataDir is the data directory.
func (p *Process) DataDir() string { return p.dataDir }
