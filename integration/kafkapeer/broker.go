package kafkapeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluiceio/sluice/integration/child"
	"github.com/sluiceio/sluice/integration/loopback"
)

const (
	readyInterval = 10 * time.Millisecond
	stopPatience  = time.Minute
)

// Broker is one broker that is its own controller. Methods are for one
// goroutine at a time.
type Broker struct {
	kafka   *Kafka
	dir     string
	address string

	// Nil while nothing runs.
	running *child.Process
}

// NewBroker sets up a broker in a folder of the test's own and formats it.
// overrides are settings of server.properties, such as "flush.messages". It
// ends with the test.
func (k *Kafka) NewBroker(t testing.TB, overrides map[string]string) *Broker {
	t.Helper()
	// The name of a test may have commas, which separate folders in log.dirs.
	dir, err := os.MkdirTemp("", "kafkapeer-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("Apache Kafka's folder: %v", err)
		}
	})
	b := &Broker{kafka: k, dir: dir, address: loopback.FreeAddress(t)}
	require.NoError(t, os.WriteFile(b.properties(), []byte(settings(b.dir, b.address, loopback.FreeAddress(t), overrides)), 0o600))
	require.NoError(t, b.format(t.Context()))
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop Apache Kafka: %v", err)
		}
		if t.Failed() {
			t.Logf("log of Apache Kafka:\n%s", b.Log())
		}
	})
	return b
}

// settings is the text of server.properties; of names that come twice the last
// counts.
func settings(dir, address, controller string, overrides map[string]string) string {
	var text strings.Builder
	set := func(name, value string) { fmt.Fprintf(&text, "%s=%s\n", name, value) }
	set("process.roles", "broker,controller")
	set("node.id", "1")
	set("controller.quorum.voters", "1@"+controller)
	set("listeners", "PLAINTEXT://"+address+",CONTROLLER://"+controller)
	set("advertised.listeners", "PLAINTEXT://"+address)
	set("controller.listener.names", "CONTROLLER")
	set("inter.broker.listener.name", "PLAINTEXT")
	set("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")
	set("log.dirs", filepath.Join(dir, "data"))
	set("group.initial.rebalance.delay.ms", "0")
	for _, name := range []string{
		"offsets.topic.replication.factor",
		"transaction.state.log.replication.factor", "transaction.state.log.min.isr",
		"share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr",
	} {
		set(name, "1")
	}
	for name, value := range overrides {
		set(name, value)
	}
	return text.String()
}

func (b *Broker) properties() string { return filepath.Join(b.dir, "server.properties") }

func (b *Broker) format(ctx context.Context) error {
	id, err := b.kafka.Run(ctx, StorageTool, "random-uuid")
	if err != nil {
		return err
	}
	_, err = b.kafka.Run(ctx, StorageTool, "format", "-t", strings.TrimSpace(id), "-c", b.properties())
	return err
}

// Start starts the broker and waits until it answers a request for metadata.
func (b *Broker) Start(ctx context.Context) error {
	if b.running != nil {
		return errors.New("start: the broker runs already")
	}
	log, err := os.OpenFile(b.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(b.kafka.java, "-Xmx1g", "-cp", b.kafka.classpath, "kafka.Kafka", b.properties())
	command.Stdout, command.Stderr = log, log
	if b.running, err = child.Start(command); err != nil {
		return err
	}
	return b.awaitReady(ctx)
}

func (b *Broker) awaitReady(ctx context.Context) error {
	again := time.NewTicker(readyInterval)
	defer again.Stop()
	for {
		if b.answers(ctx) {
			return nil
		}
		select {
		case <-b.running.Ended():
			err := b.running.Wait()
			b.running = nil
			return fmt.Errorf("start: Apache Kafka ended: %w\n%s", err, b.Log())
		case <-ctx.Done():
			return fmt.Errorf("start: Apache Kafka is not ready: %w\n%s", ctx.Err(), b.Log())
		case <-again.C:
		}
	}
}

// answers says whether the broker answers. A client is only made once
// somebody listens, since its own retries would wait for longer than that takes.
func (b *Broker) answers(ctx context.Context) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.address)
	if err != nil {
		return false
	}
	conn.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.address))
	if err != nil {
		return false
	}
	defer client.Close()
	return client.Ping(ctx) == nil
}

// Stop stops the broker cleanly. Stopping what does not run is no error.
func (b *Broker) Stop() error {
	if b.running == nil {
		return nil
	}
	err := b.running.Terminate(stopPatience)
	b.running = nil
	// What a Java program does with SIGTERM is a clean stop with a status of its
	// own.
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == 128+int(syscall.SIGTERM) {
		return nil
	}
	return err
}

// Address is the host:port of the broker.
func (b *Broker) Address() string { return b.address }

// DataDir has the partitions' folders.
func (b *Broker) DataDir() string { return filepath.Join(b.dir, "data") }

// PID is the id of the running process.
func (b *Broker) PID() int { return b.running.PID() }

func (b *Broker) logFile() string { return filepath.Join(b.dir, "log") }

// Log is what the broker has printed.
func (b *Broker) Log() string {
	text, err := os.ReadFile(b.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
