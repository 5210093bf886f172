package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/integration/child"
)

// stopPatience ends a stop that hangs.
const stopPatience = time.Minute

// program is a process that can be started again, with the same arguments.
type program struct {
	binary string
	args   []string
	// env are variables that it has beside the test's own.
	env []string
	log tail
	// Nil while nothing runs.
	running *child.Process
}

// Launch starts the process and does not wait.
func (p *program) Launch() error { return p.launch(&p.log) }

// launch starts the process with an output of its own; its log goes to the tail.
func (p *program) launch(stdout io.Writer) error {
	if p.running != nil {
		return errRuns
	}
	command := exec.Command(p.binary, p.args...)
	command.Env = append(foreignEnv(), p.env...)
	command.Stdout, command.Stderr = stdout, &p.log
	running, err := child.Start(command)
	if err != nil {
		return err
	}
	p.running = running
	return nil
}

// foreignEnv is the environment without the variables that sluice and etcd read:
// those of the test run are not for the server, which refuses what it does not
// know.
func foreignEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "SLUICE_") || strings.HasPrefix(variable, "ETCD_")
	})
}

// awaitReady waits until the process is ready, and fails when it ends before.
func (p *program) awaitReady(ctx context.Context, ready func(ctx context.Context) bool) error {
	again := time.NewTicker(readyInterval)
	defer again.Stop()
	for !ready(ctx) {
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

// Stop asks the process to stop and waits until it has. A status other than 0
// is an error.
func (p *program) Stop() error {
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
func (p *program) Kill() {
	if p.running != nil {
		p.running.Kill()
		p.running = nil
	}
}

// Wait waits until the process has ended by itself; a status other than 0 is an
// *exec.ExitError.
func (p *program) Wait(ctx context.Context) error {
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
func (p *program) Running() bool {
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
func (p *program) PID() int { return p.running.PID() }

// Log is the end of what the process has written.
func (p *program) Log() string { return p.log.String() }
