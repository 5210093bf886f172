// Package child starts processes for tests and ends them again.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a process that was started. Methods may be called by several
// goroutines.
type Process struct {
	command *exec.Cmd
	ended   chan struct{}
	// err is valid once ended is closed.
	err error
}

// Start starts a command. On Linux it ends with this process, even when this one
// is killed.
func Start(command *exec.Cmd) (*Process, error) {
	dieWithParent(command)
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{command: command, ended: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process has ended and its output has been read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits for the end; a status other than 0 is an *exec.ExitError.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Kill ends the process as a crash would and waits until it has ended.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// Terminate asks the process to stop and waits like Wait. One that has not ended
// in time is made to write what its threads do, and is then killed.
func (p *Process) Terminate(patience time.Duration) error {
	p.signal(syscall.SIGTERM)
	if p.endsWithin(patience) {
		return p.err
	}
	p.signal(syscall.SIGQUIT)
	if !p.endsWithin(patience) {
		p.Kill()
	}
	return fmt.Errorf("still running %s after SIGTERM", patience)
}

func (p *Process) endsWithin(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// signal sends a signal to a child of ours, which can only fail when it has
// ended already.
func (p *Process) signal(s os.Signal) {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(fmt.Sprintf("child: signal %v: %v", s, err))
	}
}
