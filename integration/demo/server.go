package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"syscall"
	"time"
)

// server is a `sluice serve` process on a data directory. It can be started
// again after it was killed.
type server struct {
	binary  string
	dir     string
	http    string
	address string

	process *exec.Cmd
	// Closed when the process has ended; err then says how.
	ended chan struct{}
	err   error
	log   bytes.Buffer
}

func newServer(binary, dir string) (*server, error) {
	s := &server{binary: binary, dir: dir}
	for _, address := range []*string{&s.http, &s.address} {
		free, err := freeAddress()
		if err != nil {
			return nil, err
		}
		*address = free
	}
	return s, nil
}

// freeAddress finds a port that nobody listens on just now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// start returns when the server says that it is ready.
func (s *server) start(ctx context.Context) error {
	s.log.Reset()
	s.process = exec.CommandContext(context.WithoutCancel(ctx), s.binary, "serve", "--data-dir", s.dir, "--bind", s.http, "--bind-grpc", s.address)
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = s.process.Wait()
	}()

	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !s.ready(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server did not get ready: %w", ctx.Err())
		case <-s.ended:
			return fmt.Errorf("the server ended: %w\n%s", s.err, s.log.String())
		case <-again.C:
		}
	}
	return nil
}

func (s *server) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// kill ends the process without a word. Killing what was ended is no fault.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	// It fails only for a process that has ended.
	_ = s.process.Process.Kill()
	<-s.ended
}

// stop asks the process to end and waits for it.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-s.ended
	if s.err != nil {
		return fmt.Errorf("the server stopped badly: %w\n%s", s.err, s.log.String())
	}
	return nil
}
