package grpcdoor_test

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grpcdoor"
)

// A mute is a client that lets the server send all it wants, and reads none of it.
type mute struct {
	net.Conn
	// What is written leaves at flush.
	out    *bufio.Writer
	framer *http2.Framer
	fields bytes.Buffer
	packer *hpack.Encoder
}

func (s *server) mute(tb testing.TB) *mute {
	tb.Helper()
	conn, err := net.Dial("tcp", s.address)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	m := &mute{Conn: conn, out: bufio.NewWriterSize(conn, 64<<10)}
	m.framer = http2.NewFramer(m.out, conn)
	m.packer = hpack.NewEncoder(&m.fields)
	_, err = m.out.WriteString(http2.ClientPreface)
	require.NoError(tb, err)
	require.NoError(tb, m.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	require.NoError(tb, m.framer.WriteWindowUpdate(0, 1<<30))
	return m
}

// flush sends what was written.
func (m *mute) flush(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, m.out.Flush())
}

// call begins a call.
func (m *mute) call(tb testing.TB, stream uint32, method string) {
	tb.Helper()
	m.fields.Reset()
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"x-es-key", "known"},
	} {
		require.NoError(tb, m.packer.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	require.NoError(tb, m.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: m.fields.Bytes(), EndHeaders: true}))
}

// consume begins calls whose answers have 6 MiB each. They come at once: the server may
// close the connection as soon as it has some of them.
func (m *mute) consume(tb testing.TB, streams ...uint32) {
	tb.Helper()
	request := messageOf(tb, &logv1.ConsumeRequest{Topic: "t", MaxBytes: proto.Int32(4 * mib)})
	for _, stream := range streams {
		m.call(tb, stream, consumeMethod)
		require.NoError(tb, m.framer.WriteData(stream, true, request))
	}
	m.flush(tb)
}

// Of who takes back his calls without taking their answers nothing is left with his
// connection: grpc-go may have kept the answers until then, and so they held room.
func TestAnswersOfResetCalls(t *testing.T) {
	s := start(t, limits())
	s.log.value = make([]byte, 6*mib)
	m := s.mute(t)
	m.consume(t, 1, 3)
	require.Eventually(t, func() bool { return s.held(t, "answers") > 12*mib && s.log.consumed.Load() == 2 }, eventually, tick)
	require.NoError(t, m.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	require.NoError(t, m.framer.WriteRSTStream(3, http2.ErrCodeCancel))
	m.flush(t)
	require.Eventually(t, func() bool { return s.value(t, "sluice_grpc_calls") == 0 }, eventually, tick)
	require.NoError(t, m.Close())
	s.idle(t)
}

// A socket that takes nothing is closed, for those who wait and in any case.
func TestSocketsThatTakeNothing(t *testing.T) {
	for reason, set := range map[string]func(c *grpcdoor.Config){
		"slow":   func(c *grpcdoor.Config) { c.StallTimeout = 10 * tick },
		"memory": func(c *grpcdoor.Config) { c.StallGrace = 10 * tick },
	} {
		t.Run(reason, func(t *testing.T) {
			limits := limits()
			set(&limits)
			s := start(t, limits)
			s.log.value = make([]byte, 6*mib)
			s.mute(t).consume(t, 1, 3, 5, 7)
			require.Eventually(t, func() bool { return s.value(t, "sluice_grpc_calls_cut_total", reason) > 0 }, eventually, tick)
			s.idle(t)
		})
	}
}

// Connections that never become ones of HTTP/2 hold up no stop.
func TestStopWithStrangers(t *testing.T) {
	cfg := limits()
	cfg.HandshakeTimeout = time.Hour
	s := start(t, cfg)
	for _, sent := range []string{"", "PRI *", http2.ClientPreface} {
		conn, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		_, err = conn.Write([]byte(sent))
		require.NoError(t, err)
		// The server has said its settings, so it waits for the client's.
		_, err = http2.NewFramer(conn, conn).ReadFrame()
		require.NoError(t, err)
	}
	require.NoError(t, s.stop())
}

// Frames of a byte each are paid for by who sends them, and cost honest clients
// nothing.
func TestTinyFrames(t *testing.T) {
	s := start(t, limits())
	m := s.mute(t)
	m.call(t, 1, produceMethod)
	for _, b := range append(head(mib), make([]byte, 10_000)...) {
		require.NoError(t, m.framer.WriteData(1, false, []byte{b}))
	}
	m.flush(t)
	require.Eventually(t, func() bool { return s.held(t, "requests") > 10_000*128 }, eventually, tick)
	_, err := logv1.NewLogServiceClient(s.client(t)).Produce(keyed(t.Context()), produceOf(mib))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	s.idle(t)
}
