package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// outcome is what a command did.
type outcome struct {
	status   int
	out, err string
}

// execute runs a command against a server, with nothing on standard input.
func execute(t *testing.T, server string, args ...string) outcome {
	t.Helper()
	return executeReading(t, server, strings.NewReader(""), args...)
}

func executeReading(t *testing.T, server string, in io.Reader, args ...string) outcome {
	t.Helper()
	t.Setenv("SLUICE_SERVER", server)
	var out, errs bytes.Buffer
	status := run(t.Context(), args, Streams{In: in, Out: &out, Err: &errs})
	return outcome{status, out.String(), errs.String()}
}

func succeed(t *testing.T, server string, args ...string) outcome {
	t.Helper()
	o := execute(t, server, args...)
	require.Zero(t, o.status, o.err)
	return o
}

func TestTopics(t *testing.T) {
	server := startFake(t)

	o := succeed(t, server.address, "topic", "create", "orders", "--partitions", "2",
		"--config", "retention.ms=unlimited", "--config", "min.compaction.lag.ms=5")
	require.Equal(t, "created orders with 2 partitions\n", o.out)

	o = execute(t, server.address, "topic", "create", "orders")
	require.Equal(t, exitFailure, o.status)
	require.Equal(t, "sluice topic create: topic \"orders\" exists\n", o.err)

	succeed(t, server.address, "topic", "create", "audit")
	require.Equal(t, "audit\norders\n", succeed(t, server.address, "topic", "list").out)
	require.JSONEq(t, `{"topics":["audit","orders"]}`, succeed(t, server.address, "topic", "list", "-o", "json").out)

	require.Equal(t, strings.Join([]string{
		"PARTITION   START   END   SEGMENTS   BYTES   LEADER",
		"0           0       0     1          64      node-1",
		"1           0       0     1          64      node-1",
		"",
		"CONFIG                  VALUE",
		"retention.ms            unlimited",
		"retention.bytes         unlimited",
		"cleanup.policy          delete",
		"segment.bytes           1073741824",
		"delete.retention.ms     86400000",
		"min.compaction.lag.ms   5",
		"",
	}, "\n"), succeed(t, server.address, "topic", "describe", "orders").out)
	require.JSONEq(t, `{
		"name": "audit",
		"partitions": [{"id":0,"start_offset":0,"end_offset":0,"segment_count":1,"size_bytes":64,"leader":"node-1","leader_epoch":2}],
		"config": {"retention_ms":604800000,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":1073741824,"tombstone_retention_ms":86400000}
	}`, succeed(t, server.address, "topic", "describe", "audit", "--output", "json").out)

	o = succeed(t, server.address, "topic", "config", "audit", "--set", "cleanup.policy=compact", "--set", "retention_ms=7", "-o", "json")
	require.JSONEq(t, `{"retention_ms":7,"retention_bytes":null,"cleanup_policy":"compact","segment_bytes":1073741824,"tombstone_retention_ms":86400000}`, o.out)
	require.Equal(t, o.out, succeed(t, server.address, "topic", "config", "audit", "-o", "json").out)

	require.Equal(t, "deleted audit with 1 partition\n", succeed(t, server.address, "topic", "delete", "audit").out)
	o = execute(t, server.address, "topic", "describe", "audit")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "does not exist")
}

func TestProduceAndConsume(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "orders", "--partitions", "2")

	o := succeed(t, server.address, "produce", "orders", "--key-separator", ":", "user-1:checkout", "user-2:sign:up")
	require.Empty(t, o.out)
	require.Regexp(t, `^produced 2 records to orders in \d+\.\d\d s, last offsets by partition 0:0 1:0\n$`, o.err)

	require.Equal(t, "checkout\n", succeed(t, server.address, "consume", "orders", "-p", "0").out)
	require.Equal(t, "user-2:sign:up\n", succeed(t, server.address, "consume", "orders", "-p", "1", "--key-separator", ":").out)
	require.JSONEq(t, `{"partition":1,"offset":0,"timestamp_ms":1763500000000,"key":"user-2","value":"sign:up"}`,
		succeed(t, server.address, "consume", "orders", "-p", "1", "-o", "json").out)

	o = succeed(t, server.address, "produce", "orders", "--partition", "1", "-o", "json", "a\xff<", "")
	require.Equal(t, `{"partition":1,"offset":1}`+"\n"+`{"partition":1,"offset":2}`+"\n", o.out)
	require.Equal(t,
		`{"partition":1,"offset":1,"timestamp_ms":1763500000000,"key":null,"value":"a\ufffd<"}`+"\n"+
			`{"partition":1,"offset":2,"timestamp_ms":1763500000000,"key":null,"value":""}`+"\n",
		succeed(t, server.address, "consume", "orders", "-p", "1", "--from", "1", "-o", "json").out)
	require.Equal(t,
		`{"partition":1,"offset":1,"timestamp_ms":1763500000000,"key":null,"value":"Yf88"}`+"\n"+
			`{"partition":1,"offset":2,"timestamp_ms":1763500000000,"key":null,"value":""}`+"\n",
		succeed(t, server.address, "consume", "orders", "-p", "1", "--from", "1", "-o", "base64").out)

	require.ElementsMatch(t, []string{"checkout", "sign:up", "a\xff<", ""},
		strings.Split(strings.TrimSuffix(succeed(t, server.address, "consume", "orders").out, "\n"), "\n"))
	require.Equal(t, "sign:up\na\xff<\n",
		succeed(t, server.address, "consume", "orders", "-p", "1", "--max", "2", "--fetch-records", "1").out)
	require.Empty(t, succeed(t, server.address, "consume", "orders", "--from", "99").out)
}

func TestProduceLines(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "logs")
	path := filepath.Join(t.TempDir(), "lines")
	require.NoError(t, os.WriteFile(path, []byte("one\n\nthree\r\nlast"), 0o600))

	succeed(t, server.address, "produce", "logs", "--file", path, "--batch-records", "3")
	requests, values := server.produced("logs", 0)
	require.Equal(t, []string{"one", "", "three\r", "last"}, values)
	require.Equal(t, 2, requests)

	o := executeReading(t, server.address, strings.NewReader(strings.Repeat("0123456789\n", 100)),
		"produce", "logs", "--batch-bytes", "95")
	require.Zero(t, o.status, o.err)
	requests, values = server.produced("logs", 0)
	require.Len(t, values, 104)
	require.Equal(t, 2+12, requests, "nine lines of ten bytes fit into each")
}

func TestProduceDoesNotHoldBackASlowSource(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "logs")
	arrived := make(chan struct{}, 2)
	server.onProduce = func(*logv1.ProduceRequest) error {
		arrived <- struct{}{}
		return nil
	}
	in, source := io.Pipe()
	go func() {
		defer source.Close()
		for range 2 {
			io.WriteString(source, "line\n")
			// The next line comes only once this one is at the server.
			<-arrived
		}
	}()
	o := executeReading(t, server.address, in, "produce", "logs")
	require.Zero(t, o.status, o.err)
	requests, _ := server.produced("logs", 0)
	require.Equal(t, 2, requests)
}

func TestProduceTellsWhatIsOnDisk(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "logs")

	o := executeReading(t, server.address, strings.NewReader("k=1\nk=2\nbad\n"),
		"produce", "logs", "--key-separator", "=", "--batch-records", "1")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `line 3: no "=" that ends a key (on disk: 2 records)`)

	o = executeReading(t, server.address, strings.NewReader("short\ntoo long\n"), "produce", "logs", "--max-line-bytes", "5")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "line 2: longer than --max-line-bytes")

	server.onProduce = func(r *logv1.ProduceRequest) error {
		if string(r.GetRecords()[0].GetValue()) == "2" {
			return status.Error(codes.Unavailable, "the leader went away")
		}
		return nil
	}
	o = execute(t, server.address, "produce", "logs", "--batch-records", "1", "1", "2", "3")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "not known whether it was written: 1 record (on disk: 1 record)")
}

func TestConsumeFollowsAcrossARestart(t *testing.T) {
	server := &fake{}
	server.mu.topics = map[string]*fakeTopic{}
	server.mu.changed = make(chan struct{})
	stop := server.serve(t, "127.0.0.1:0")
	address := server.address
	succeed(t, address, "topic", "create", "logs")
	succeed(t, address, "produce", "logs", "before")

	t.Setenv("SLUICE_SERVER", address)
	ctx, cancel := context.WithCancel(t.Context())
	out := newWatchedBuffer()
	errs := newWatchedBuffer()
	ended := make(chan int, 1)
	go func() {
		defer out.close()
		defer errs.close()
		ended <- run(ctx, []string{"consume", "logs", "--follow"}, Streams{In: strings.NewReader(""), Out: out, Err: errs})
	}()
	out.await(t, "before\n")
	stop()
	errs.await(t, "trying again\n")
	server.serve(t, address)
	succeed(t, address, "produce", "logs", "after")
	out.await(t, "before\nafter\n")
	cancel()
	require.Equal(t, exitOK, <-ended, "being interrupted is how following ends")
}

func TestConsumeByGroupCommitsWhatItWrote(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "orders")
	succeed(t, server.address, "produce", "orders", "a", "b", "c", "d")

	require.Equal(t, "a\nb\nc\n", succeed(t, server.address, "consume", "orders", "--group", "g", "--max", "3").out)
	require.JSONEq(t, `{"offsets":{"orders":{"0":3}}}`, succeed(t, server.address, "group", "offsets", "g", "-o", "json").out)
	require.Equal(t, "d\n", succeed(t, server.address, "consume", "orders", "--group", "g").out)
	require.Empty(t, succeed(t, server.address, "consume", "orders", "--group", "g").out)

	o := succeed(t, server.address, "group", "commit", "g", "--topic", "orders", "--partition", "0", "--offset", "1")
	require.Equal(t, "g continues orders/0 at offset 1\n", o.out)
	require.Equal(t, "TOPIC    PARTITION   OFFSET\norders   0           1\n", succeed(t, server.address, "group", "offsets", "g").out)
	require.JSONEq(t, `{"offsets":{}}`, succeed(t, server.address, "group", "offsets", "nobody", "-o", "json").out)
}

func TestConsumeEndsWhereNothingMoreCanBeRead(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "orders")
	succeed(t, server.address, "produce", "orders", "a", "b")
	// As if a transaction were open from the second record on.
	server.stableEnd = 1
	require.Equal(t, "a\n", succeed(t, server.address, "consume", "orders").out)
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args string
		says string
	}{
		{"nonsense", `unknown command "nonsense"`},
		{"topic nonsense", `unknown command "nonsense"`},
		{"topic create", "accepts 1 arg(s)"},
		{"topic create a --nonsense", "unknown flag: --nonsense"},
		{"topic create a --config retention.ms", "must be NAME=VALUE"},
		{"topic create a --config retention.ms=soon", "must be a whole number"},
		{"topic list -o yaml", "must be one of table, json"},
		{"topic list --timeout 0s", "must be positive"},
		{"topic list --server http://127.0.0.1:9000", "expected host:port of the gRPC API"},
		{"produce", "requires at least 1 arg(s)"},
		{"produce a b --file f", "not both"},
		{"produce a --key k --key-separator :", "if any flags in the group"},
		{"produce a --batch-records 0", "must be 1 or more"},
		{"consume a --from latest", "reads nothing without --follow"},
		{"consume a --from -1", "an offset of 0 or more"},
		{"consume a --from soon", "an offset of 0 or more"},
		{"consume a --max -1", "must be 0 or more"},
		{"consume a --group g --from 0", "both say where to start"},
		{"consume a -o json --key-separator :", "is for text output"},
		{"group commit g --topic a --partition 0", `required flag(s) "offset" not set`},
	} {
		t.Run(test.args, func(t *testing.T) {
			o := execute(t, "127.0.0.1:1", strings.Fields(test.args)...)
			require.Equal(t, exitUsage, o.status, o.err)
			require.Contains(t, o.err, test.says)
			require.Contains(t, o.err, "--help")
			require.Empty(t, o.out)
		})
	}
}

func TestNoServer(t *testing.T) {
	o := execute(t, "127.0.0.1:1", "topic", "list")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "127.0.0.1:1 is not available")
}

func TestNoPartition(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "orders")
	o := execute(t, server.address, "consume", "orders", "-p", "3")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "orders has no partition 3")
}

// What is the matter with a partition is shown, and one that cannot be read does not
// pass for an empty one.
func TestUnsoundPartitions(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "orders", "--partitions", "3")
	succeed(t, server.address, "produce", "orders", "a", "--partition", "2")
	server.mu.unsound = map[int32]*logv1.PartitionInfo{
		1: {Id: 1, LeaderEpoch: -1, State: "damaged", Error: "the replica on node b is damaged"},
		2: {
			Id: 2, EndOffset: 1, SegmentCount: 1, SizeBytes: 64, Leader: "node-1",
			State: "no_space", Error: "no space left on the disk of node node-1",
		},
	}
	shown := succeed(t, server.address, "topic", "describe", "orders").out
	require.Contains(t, shown, strings.Join([]string{
		"PARTITION   START   END   SEGMENTS   BYTES   LEADER",
		"0           0       0     1          64      node-1",
		"1           0       0     0          0       none",
		"2           0       1     1          64      node-1",
		"partition 1 is not sound (damaged): the replica on node b is damaged",
		"partition 2 is not sound (no_space): no space left on the disk of node node-1",
		"",
		"CONFIG",
	}, "\n"))
	shown = succeed(t, server.address, "topic", "describe", "orders", "-o", "json").out
	require.Contains(t, shown, `"state": "damaged",`)
	require.Equal(t, 2, strings.Count(shown, `"error":`))

	o := execute(t, server.address, "consume", "orders")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "partition 1 of orders cannot be read: the replica on node b is damaged")
	require.Equal(t, "a\n", succeed(t, server.address, "consume", "orders", "--partition", "2").out)
}

func TestCompletionAsksTheServer(t *testing.T) {
	server := startFake(t)
	succeed(t, server.address, "topic", "create", "orders")
	succeed(t, server.address, "topic", "create", "audit")
	for _, command := range []string{"consume", "produce", "topic describe", "topic config", "topic delete"} {
		args := append([]string{"__complete"}, strings.Fields(command)...)
		o := succeed(t, server.address, append(args, "")...)
		require.Equal(t, "audit\norders\n:4\n", o.out, command)
	}
	require.Contains(t, succeed(t, server.address, "completion", "bash").out, "__start_sluice")
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^sluice \S+.*, go1\.\S+, \w+/\w+\n$`, succeed(t, "127.0.0.1:1", "version").out)
}

// watchedBuffer can be waited on.
type watchedBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	closed  bool
	changed *sync.Cond
}

func newWatchedBuffer() *watchedBuffer {
	b := &watchedBuffer{}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *watchedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed.Broadcast()
	return b.text.Write(p)
}

// close says that nothing more will come.
func (b *watchedBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.changed.Broadcast()
}

// await waits until the text ends so.
func (b *watchedBuffer) await(t *testing.T, end string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !strings.HasSuffix(b.text.String(), end) {
		require.False(t, b.closed, "have %q", b.text.String())
		b.changed.Wait()
	}
}

// Every command says what it is for, and what completes it.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(command *cobra.Command)
	seen := 0
	walk = func(command *cobra.Command) {
		for _, child := range command.Commands() {
			walk(child)
		}
		path := strings.Fields(command.CommandPath())[1:]
		o := succeed(t, "127.0.0.1:1", append(path, "--help")...)
		require.NotEmpty(t, o.out, path)
		require.NotEmpty(t, command.Short, path)
		require.NotContains(t, command.Short, "\n", path)
		if strings.Contains(command.Use, " TOPIC") {
			require.NotNil(t, command.ValidArgsFunction, "%v completes no topics", path)
		}
		command.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%v --%s", path, f.Name) })
		seen++
	}
	walk(newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}))
	require.Greater(t, seen, 40)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, succeed(t, "127.0.0.1:1", "completion", shell).out, "sluice", shell)
	}
}
