package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/integration/child"
	"github.com/sluiceio/sluice/integration/loopback"
)

const (
	// readyInterval is how often a server that is not ready yet is asked again.
	readyInterval = 2 * time.Millisecond
	// stopPatience ends a stop that hangs.
	stopPatience = time.Minute
)

var errRuns = errors.New("the server runs already")

// Process is a server as a process, which can be killed.
type Process struct {
	binary     string
	flags      []string
	env        []string
	dataDir    string
	http, grpc string
	log        tail
	// Nil while nothing runs.
	running *child.Process
}

var _ Server = (*Process)(nil)

// NewProcess sets up a process, which ends with the test. It starts none.
func NewProcess(t testing.TB, o Options) *Process {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = filepath.Join(t.TempDir(), "data")
	}
	p := &Process{
		binary:  Binary(t),
		env:     o.Env,
		dataDir: o.DataDir,
		http:    loopback.FreeAddress(t),
		grpc:    loopback.FreeAddress(t),
	}
	p.flags = append([]string{"serve"}, serveFlags(p, o)...)
	own(t, p)
	return p
}

// Start starts the process and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.awaitReady(ctx)
}

// Launch starts the process and does not wait.
func (p *Process) Launch() error {
	if p.running != nil {
		return errRuns
	}
	command := exec.Command(p.binary, p.flags...)
	command.Env = append(foreignEnv(), p.env...)
	command.Stdout, command.Stderr = &p.log, &p.log
	running, err := child.Start(command)
	if err != nil {
		return err
	}
	p.running = running
	return nil
}

// foreignEnv is the environment without the variables that sluice reads: those
// of the test run are not for the server, which refuses what it does not know.
func foreignEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SLUICE_") })
}

func (p *Process) awaitReady(ctx context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	again := time.NewTicker(readyInterval)
	defer again.Stop()
	for !isReady(ctx, transport, p.HTTP()) {
		select {
		case <-p.running.Ended():
			err := p.running.Wait()
			p.running = nil
			return fmt.Errorf("start: the process ended: %w\n%s", err, p.Log())
		case <-ctx.Done():
			return fmt.Errorf("start: not ready: %w\n%s", ctx.Err(), p.Log())
		case <-again.C:
		}
	}
	return nil
}

func isReady(ctx context.Context, transport http.RoundTripper, base string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Stop asks the process to stop and waits until it has. A status other than 0
// is an error.
func (p *Process) Stop() error {
	if p.running == nil {
		return nil
	}
	err := p.running.Terminate(stopPatience)
	p.running = nil
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// Kill ends the process as a crash would and waits until it has ended.
func (p *Process) Kill() {
	if p.running != nil {
		p.running.Kill()
		p.running = nil
	}
}

// Wait waits until the process has ended by itself; a status other than 0 is an
// *exec.ExitError.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.running.Ended():
		err := p.running.Wait()
		p.running = nil
		return err
	case <-ctx.Done():
		return fmt.Errorf("the process does not end: %w", ctx.Err())
	}
}

// Running says whether the process was started and has not ended.
func (p *Process) Running() bool {
	if p.running == nil {
		return false
	}
	select {
	case <-p.running.Ended():
		return false
	default:
		return true
	}
}

// PID is the id of the running process.
func (p *Process) PID() int { return p.running.PID() }

// HTTP is the URL of the HTTP API.
func (p *Process) HTTP() string { return "http://" + p.http }

// GRPC is the address of the public gRPC API.
func (p *Process) GRPC() string { return p.grpc }

// DataDir is the data directory.
func (p *Process) DataDir() string { return p.dataDir }

// Log is the end of what the process has written.
func (p *Process) Log() string { return p.log.String() }
