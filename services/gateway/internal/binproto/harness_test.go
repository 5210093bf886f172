package binproto_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	eventually = time.Minute
	tick       = time.Millisecond
)

// fake is a backend that keeps the values of each topic in one partition.
type fake struct {
	mu struct {
		sync.Mutex
		// By secret; nil lets everybody in as administrator.
		keys   map[string]*registryv1.Principal
		asked  int
		values map[string][]string
		// Sizes of the groups of ProduceAll.
		groups []int
	}
	// Called before a group is written, or a read answered, if not nil.
	before func(topic string, requests int)
}

func (f *fake) require(keys map[string]*registryv1.Principal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.keys = keys
}

func (f *fake) Authenticate(_ context.Context, secret string) (grants.Caller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.asked++
	if f.mu.keys == nil {
		return grants.CallerOf(&registryv1.Principal{Id: "anonymous", Admin: true}), nil
	}
	p := f.mu.keys[secret]
	if p == nil {
		return grants.Caller{}, errs.New(errs.Unauthenticated, "NO_KEY", "no or unknown key")
	}
	return grants.CallerOf(p), nil
}

func (f *fake) ProduceAll(_ context.Context, _ grants.Caller, topic string, requests []backend.WriteRequest) []backend.WriteResult {
	if f.before != nil {
		f.before(topic, len(requests))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.values == nil {
		f.mu.values = make(map[string][]string)
	}
	f.mu.groups = append(f.mu.groups, len(requests))
	results := make([]backend.WriteResult, len(requests))
	for i, r := range requests {
		for _, record := range r.Records {
			if string(record.Value) == "refused" {
				results[i] = backend.WriteResult{Err: backend.ErrInvalidRecord.WithMessage("refused")}
				break
			}
			results[i].Placed = append(results[i].Placed, backend.Placed{Partition: max(record.Partition, 0), Offset: int64(len(f.mu.values[topic]))})
			f.mu.values[topic] = append(f.mu.values[topic], string(record.Value))
		}
	}
	return results
}

func (f *fake) Consume(_ context.Context, _ grants.Caller, r backend.Read) (backend.Fetched, error) {
	if f.before != nil {
		f.before(r.Topic, 0)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	got := backend.Fetched{NextOffset: r.Offset, HighWatermark: int64(len(f.mu.values[r.Topic]))}
	for _, value := range f.mu.values[r.Topic][min(r.Offset, got.HighWatermark):] {
		got.Records = append(got.Records, backend.Record{Offset: got.NextOffset, TimestampMs: 1763500000000, Value: []byte(value)})
		got.NextOffset++
	}
	return got, nil
}

// authenticated returns how often a key was asked for.
func (f *fake) authenticated() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.asked
}

func (f *fake) written(topic string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.mu.values[topic]...)
}

func (f *fake) sizes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int(nil), f.mu.groups...)
}

// door is a served door.
type door struct {
	*fake
	address string
	log     *logBuffer
	stop    func()
}

func start(tb testing.TB, backend *fake, settings ...func(*binproto.Config, *binproto.Deps)) *door {
	tb.Helper()
	d := &door{fake: backend, log: &logBuffer{}}
	// Patient, so that a test says what it is about.
	cfg := binproto.Config{
		MaxPayloadBytes:  1 << 20,
		MaxRecords:       1000,
		MaxFetchRecords:  1000,
		MaxFetchBytes:    8 << 20,
		BudgetBytes:      64 << 20,
		ConnectionBytes:  32 << 20,
		IdleTimeout:      time.Minute,
		WriteTimeout:     time.Minute,
		FrameTimeout:     time.Minute,
		StallTimeout:     time.Minute,
		StallGrace:       time.Minute,
		HandshakeTimeout: time.Minute,
		BudgetTimeout:    time.Minute,
		Grace:            time.Minute,
	}
	deps := binproto.Deps{
		Logger:   slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Backend:  backend,
		Requests: semaphore.NewWeighted(64 << 20),
		Answers:  semaphore.NewWeighted(64 << 20),
	}
	for _, set := range settings {
		set(&cfg, &deps)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	d.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- binproto.New(cfg, deps).Serve(ctx, listener) }()
	var once sync.Once
	d.stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(tb, <-ended)
		})
	}
	tb.Cleanup(d.stop)
	return d
}

// client is a connection on which a test writes what it likes.
type client struct {
	tb   testing.TB
	conn net.Conn
	gzip bool
	last uint32
}

func (d *door) dial(tb testing.TB) *client {
	tb.Helper()
	conn, err := net.Dial("tcp", d.address)
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close() })
	return &client{tb: tb, conn: conn}
}

// join dials and shakes hands.
func (d *door) join(tb testing.TB, token string, features uint32) *client {
	tb.Helper()
	c := d.dial(tb)
	c.send(hello("ES01", features, token))
	require.Equal(tb, reply(0, features, ""), c.read(13))
	c.gzip = features&1 != 0
	return c
}

func hello(magic string, features uint32, token string) []byte {
	b := binary.BigEndian.AppendUint32([]byte(magic), features)
	b = binary.BigEndian.AppendUint32(b, uint32(len(token)))
	return append(b, token...)
}

func reply(status byte, features uint32, message string) []byte {
	b := append([]byte("ES01"), status)
	b = binary.BigEndian.AppendUint32(b, features)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	return append(b, message...)
}

func (c *client) send(b []byte) {
	c.tb.Helper()
	_, err := c.conn.Write(b)
	require.NoError(c.tb, err)
}

func (c *client) read(n int) []byte {
	c.tb.Helper()
	require.NoError(c.tb, c.conn.SetReadDeadline(time.Now().Add(eventually)))
	b := make([]byte, n)
	_, err := io.ReadFull(c.conn, b)
	require.NoError(c.tb, err)
	return b
}

// frame is one frame, its payload not compressed.
type frame struct {
	id      uint32
	op      byte
	payload string
}

func (f frame) bytes(compress bool) []byte {
	payload := []byte(f.payload)
	if compress {
		payload = zip(payload)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(5+len(payload)))
	b = binary.BigEndian.AppendUint32(b, f.id)
	b = append(b, f.op)
	return append(b, payload...)
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// ask sends a request and returns its id.
func (c *client) ask(op byte, payload string) uint32 {
	c.tb.Helper()
	c.last++
	c.send(frame{c.last, op, payload}.bytes(c.gzip))
	return c.last
}

// next reads a frame.
func (c *client) next() frame {
	c.tb.Helper()
	head := c.read(9)
	payload := c.read(int(binary.BigEndian.Uint32(head)) - 5)
	if c.gzip {
		r, err := gzip.NewReader(bytes.NewReader(payload))
		require.NoError(c.tb, err)
		payload, err = io.ReadAll(r)
		require.NoError(c.tb, err)
	}
	return frame{binary.BigEndian.Uint32(head[4:]), head[8], string(payload)}
}

// call sends a request and returns its answer, which comes next.
func (c *client) call(op byte, payload string) frame {
	c.tb.Helper()
	id := c.ask(op, payload)
	got := c.next()
	require.Equal(c.tb, id, got.id)
	return got
}

// alive checks that the connection goes on.
func (c *client) alive() {
	c.tb.Helper()
	got := c.call(ping, "")
	require.Equal(c.tb, frame{got.id, 0x83, ""}, got)
}

// over checks that the server closes the connection.
func (c *client) over() {
	c.tb.Helper()
	require.NoError(c.tb, c.conn.SetReadDeadline(time.Now().Add(eventually)))
	n, err := c.conn.Read(make([]byte, 1))
	require.Zero(c.tb, n)
	require.Error(c.tb, err)
	var timeout net.Error
	require.False(c.tb, errorsAs(err, &timeout) && timeout.Timeout(), "the connection is still open")
}

// The opcodes of requests.
const (
	produce = 0x01
	consume = 0x02
	ping    = 0x03
)

// record is a record in a produce, as the fields stand in the frame.
type record struct {
	key       string
	noKey     bool
	value     string
	partition int32
	sequence  int64
}

const none = -1 << 63

func val(value string) record {
	return record{noKey: true, value: value, partition: -1, sequence: none}
}

func str16(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

func u32(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
func u64(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func (r record) payload() string {
	key := u32(0xffffffff)
	if !r.noKey {
		key = u32(uint32(len(r.key))) + r.key
	}
	return key + u32(uint32(len(r.value))) + r.value + u32(uint32(r.partition)) + u64(uint64(r.sequence))
}

func records(topic string, rs ...record) string {
	payload := str16(topic) + u32(0xffffffff) + u32(uint32(len(rs)))
	for _, r := range rs {
		payload += r.payload()
	}
	return payload
}

func placed(offsets ...uint64) string {
	payload := u32(uint32(len(offsets)))
	for _, offset := range offsets {
		payload += u32(0) + u64(offset) + "\x00"
	}
	return payload
}

func reading(topic string, offset uint64) string {
	return str16(topic) + u32(0) + u64(offset) + u32(100) + u32(1<<20)
}

// logBuffer is a log that a test reads while others write it.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
