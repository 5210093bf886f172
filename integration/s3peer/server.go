package s3peer

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/child"
	"github.com/sluiceio/sluice/integration/loopback"
)

// Binary is the program's name; the Makefile pins and builds it.
const Binary = "versitygw"

const (
	readyInterval = 5 * time.Millisecond
	stopPatience  = time.Minute
)

// The bucket and the keys of a server.
const (
	Bucket    = "sluice-cold"
	AccessKey = "peer-access-key"
	SecretKey = "peer-secret-key-that-nobody-may-see"
)

// Server is a server with one bucket. Methods are for one goroutine at a time.
type Server struct {
	binary  string
	dir     string
	address string
	// certificate and key are empty without TLS.
	certificate, key string
	// Nil while nothing runs.
	running *child.Process
}

// Require returns a server that runs, and ends with the test. Where there is no
// versitygw on the PATH it skips the test, or fails it if SLUICE_REQUIRE_PEERS
// is 1.
func Require(t testing.TB) *Server {
	t.Helper()
	s := prepare(t)
	s.Start(t)
	return s
}

// RequireTLS is Require for a server that speaks TLS, with a certificate of its own
// making.
func RequireTLS(t testing.TB) *Server {
	t.Helper()
	s := prepare(t)
	s.certificate, s.key = certify(t, s.dir)
	s.Start(t)
	return s
}

func prepare(t testing.TB) *Server {
	t.Helper()
	binary, err := exec.LookPath(Binary)
	if err != nil && os.Getenv("SLUICE_REQUIRE_PEERS") != "1" {
		t.Skipf("%v; make cold builds it, SLUICE_REQUIRE_PEERS=1 makes this a failure", err)
	}
	require.NoError(t, err)
	// Its socket's name and its files' attributes want a short path.
	dir, err := os.MkdirTemp("", "s3peer-")
	require.NoError(t, err)
	s := &Server{binary: binary, dir: dir, address: loopback.FreeAddress(t)}
	t.Cleanup(func() {
		err := errors.Join(s.Stop(), os.RemoveAll(dir))
		if err != nil {
			t.Errorf("S3 server: %v", err)
		}
	})
	require.NoError(t, os.MkdirAll(s.bucketDir(), 0o755))
	return s
}

func (s *Server) bucketDir() string { return filepath.Join(s.dir, "buckets", Bucket) }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Start starts the server and waits until it listens.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	require.Nil(t, s.running, "the server runs already")
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	args := []string{"--port", s.address, "--keep-alive"}
	if s.certificate != "" {
		args = append(args, "--cert", s.certificate, "--key", s.key)
	}
	command := exec.Command(s.binary, append(args, "posix", filepath.Join(s.dir, "buckets"))...)
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	command.Stdout, command.Stderr = log, log
	s.running, err = child.Start(command)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), stopPatience)
	defer cancel()
	again := time.NewTicker(readyInterval)
	defer again.Stop()
	for {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address); err == nil {
			conn.Close()
			return
		}
		select {
		case <-again.C:
		case <-s.running.Ended():
			require.Fail(t, "the S3 server ended", "%v\n%s", s.running.Wait(), s.Log())
		case <-ctx.Done():
			require.Fail(t, "the S3 server does not listen", "%s", s.Log())
		}
	}
}

// Stop stops the server. Stopping what does not run is no error.
func (s *Server) Stop() error {
	if s.running == nil {
		return nil
	}
	err := s.running.Terminate(stopPatience)
	s.running = nil
	return err
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	s.running.Kill()
	s.running = nil
}

// URL is the endpoint.
func (s *Server) URL() string {
	if s.certificate != "" {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// Certificate is the file with the server's certificate.
func (s *Server) Certificate() string { return s.certificate }

// Log is what the server has printed.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Files are the names of all files in the bucket's folder: the objects, and what
// the server keeps of uploads that are under way.
func (s *Server) Files(t testing.TB) []string {
	t.Helper()
	files := []string{}
	err := filepath.WalkDir(s.bucketDir(), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone in the meantime
		}
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.bucketDir(), path)
		files = append(files, filepath.ToSlash(name))
		return err
	})
	require.NoError(t, err)
	return files
}

// Objects are the names of the objects below a prefix.
func (s *Server) Objects(t testing.TB, prefix string) []string {
	t.Helper()
	objects := []string{}
	for _, file := range s.Files(t) {
		if strings.HasPrefix(file, prefix) && !strings.HasPrefix(file, ".") {
			objects = append(objects, file)
		}
	}
	return objects
}

// Spoil changes a byte of an object.
func (s *Server) Spoil(t testing.TB, object string, off int64) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(s.bucketDir(), filepath.FromSlash(object)), os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	b := make([]byte, 1)
	_, err = file.ReadAt(b, off)
	require.NoError(t, err, "%s at %d", object, off)
	b[0] ^= 1
	_, err = file.WriteAt(b, off)
	require.NoError(t, err)
}
