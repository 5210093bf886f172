package kafkapeer

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Version is the version of Apache Kafka.
const Version = "4.4.0"

//go:embed pom.xml
var pom []byte

// ErrNoJava marks a machine that cannot run or fetch Apache Kafka.
var ErrNoJava = errors.New("Apache Kafka needs java and mvn")

// Kafka is an installed Apache Kafka.
type Kafka struct {
	java      string
	classpath string
}

// Require installs Apache Kafka, once for each machine. Where java or mvn is
// absent it skips the test, or fails it if SLUICE_REQUIRE_PEERS is 1.
func Require(t testing.TB) *Kafka {
	t.Helper()
	k, err := Install()
	if errors.Is(err, ErrNoJava) && os.Getenv("SLUICE_REQUIRE_PEERS") != "1" {
		t.Skipf("%v; SLUICE_REQUIRE_PEERS=1 makes this a failure", err)
	}
	require.NoError(t, err)
	return k
}

// Install finds Apache Kafka in SLUICE_KAFKA_DIR, or the user's cache, and has
// Maven put it there if need be. Several processes may call it at once.
func Install() (*Kafka, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoJava, err)
	}
	dir := os.Getenv("SLUICE_KAFKA_DIR")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(cache, "sluice", "kafka-"+Version)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := fetch(dir); err != nil {
		return nil, fmt.Errorf("install Apache Kafka: %w", err)
	}
	return &Kafka{java: java, classpath: filepath.Join(dir, "jars", "*")}, nil
}

// fetch puts the jars into dir/jars. dir/pom.xml is written last: it says that
// all that it names is there.
func fetch(dir string) error {
	done := filepath.Join(dir, "pom.xml")
	if have, err := os.ReadFile(done); err == nil && bytes.Equal(have, pom) {
		return nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoJava, err)
	}
	jars := filepath.Join(dir, "jars")
	if err := os.RemoveAll(jars); err != nil {
		return err
	}
	project := filepath.Join(dir, "fetch.xml")
	if err := os.WriteFile(project, pom, 0o644); err != nil {
		return err
	}
	command := exec.Command(mvn, "-q", "-B", "-f", project, "dependency:copy-dependencies", "-DoutputDirectory="+jars)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return os.Rename(project, done)
}

// lock waits for a lock on a file, which ends with the process too.
func lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
