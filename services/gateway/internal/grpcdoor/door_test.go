package grpcdoor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

const produceMethod, consumeMethod = logv1.LogService_Produce_FullMethodName, logv1.LogService_Consume_FullMethodName

func keyed(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-es-key", "known")
}

func produceOf(bytes int) *logv1.ProduceRequest {
	return &logv1.ProduceRequest{Topic: "t", Records: []*logv1.ProduceRecord{{Value: make([]byte, bytes)}}}
}

func TestCalls(t *testing.T) {
	s := start(t, limits())
	s.log.value = make([]byte, 4*mib)
	client := logv1.NewLogServiceClient(s.client(t))
	for _, size := range []int{0, 1, 100, 16 << 10, 128 << 10, 2*mib - 100} {
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
			_, err := client.Produce(keyed(t.Context()), produceOf(size), options...)
			require.NoError(t, err, "%d bytes", size)
		}
	}
	read, err := client.Consume(keyed(t.Context()), &logv1.ConsumeRequest{Topic: "t"})
	require.NoError(t, err)
	require.Len(t, read.GetRecords()[0].GetValue(), 4*mib)
	_, err = client.Consume(keyed(t.Context()), &logv1.ConsumeRequest{Topic: "t", Partition: proto.Int32(0), Offset: proto.Int64(0), MaxWaitMs: proto.Int32(1000)})
	require.NoError(t, err, "the door waits for the handler")
	require.EqualValues(t, 1, s.keys.awaited.Load())
	s.idle(t)
}

// Those who have no good key take nothing of the requests, however much they send: no
// message of theirs is read, and what comes before they are refused is the lobby's.
func TestNothingIsReadForWhoHasNoKey(t *testing.T) {
	s := start(t, limits())
	p := s.peer(t)
	for range 50 {
		st := p.open(t, produceMethod, "bad")
		go func() { _, _ = st.Write(append(head(2*mib-1), make([]byte, mib)...)) }()
		require.Equal(t, fmt.Sprint(int(codes.Unauthenticated)), st.status(t))
		require.Zero(t, s.held(t, "requests"))
	}
	_, err := logv1.NewLogServiceClient(s.client(t)).Produce(metadata.AppendToOutgoingContext(t.Context(), "x-es-key", "good"), produceOf(mib))
	require.NoError(t, err, "who was not known and has a good key")
	require.Equal(t, codes.Unauthenticated, codeOf(logv1.NewLogServiceClient(s.client(t)).Produce(t.Context(), produceOf(1))))
	require.EqualValues(t, 1, s.log.produced.Load())
}

// While a registry tells nothing, those who wait for it take the lobby at most, and
// who is known comes through.
func TestStrangersWaitInTheLobby(t *testing.T) {
	s := start(t, limits())
	s.keys.gate = make(chan struct{})
	var streams []*stream
	for range 2 {
		p := s.peer(t)
		for range 50 {
			st := p.open(t, produceMethod, "bad")
			streams = append(streams, st)
		}
	}
	const room = 2 * mib / (144 << 10) // an eighth of the budget
	require.Eventually(t, func() bool { return s.value(t, "sluice_grpc_calls_refused_total", "Unavailable") == 100-room }, eventually, tick)
	// Who has come in asks in a goroutine of his own.
	require.Eventually(t, func() bool { return s.keys.asked.Load() == room }, eventually, tick)
	_, err := logv1.NewLogServiceClient(s.client(t)).Produce(keyed(t.Context()), produceOf(mib))
	require.NoError(t, err)
	close(s.keys.gate)
	for _, st := range streams {
		require.Contains(t, []string{fmt.Sprint(int(codes.Unauthenticated)), fmt.Sprint(int(codes.Unavailable))}, st.status(t))
	}
	s.idle(t)
}

// Many connections with many streams that send most of the largest message and stop
// hold what there is for them, and no more. Honest clients get through meanwhile,
// since those that stopped are cut off for them.
func TestStalledMessages(t *testing.T) {
	cfg := limits()
	cfg.StallGrace, cfg.BudgetTimeout = 20*time.Millisecond, 500*time.Millisecond
	s := start(t, cfg)
	before := heap()
	part := append(head(2*mib-1), make([]byte, 1800<<10)...)
	for range 6 {
		p := s.peer(t)
		for range 20 {
			st := p.open(t, produceMethod, "known")
			go func() { _, _ = st.Write(part) }()
		}
	}
	// They wait for each other too, so some may be cut off by the time that anybody looks.
	require.Eventually(t, func() bool {
		return s.held(t, "requests") > 10*mib || s.value(t, "sluice_grpc_calls_cut_total", "memory") > 0
	}, eventually, tick)
	most := make(chan int64, 1)
	watching, stop := context.WithCancel(t.Context())
	go func() {
		var top int64
		for watching.Err() == nil {
			top = max(top, heap()-before)
			if held := s.held(t, "requests"); held > cfg.BudgetBytes {
				top = 1 << 40
			}
			<-time.After(200 * time.Millisecond)
		}
		most <- top
	}()
	client := logv1.NewLogServiceClient(s.client(t))
	for range 20 {
		// Who is told that there is no room tries again.
		var last atomic.Value
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(keyed(t.Context()), 10*time.Second)
			defer cancel()
			_, err := client.Produce(ctx, produceOf(100<<10))
			last.Store(fmt.Sprint(err))
			return err == nil
		}, eventually, tick, "%v", &last)
	}
	stop()
	// All that they send is 210 MiB.
	require.Less(t, <-most, int64(80*mib))
	require.Eventually(t, func() bool { return s.value(t, "sluice_grpc_calls_cut_total", "memory") > 0 }, eventually, tick)
}

// Who waits gets what those have who stopped, long before his patience ends.
func TestWhoStopsMakesRoom(t *testing.T) {
	cfg := limits()
	cfg.StallGrace, cfg.BudgetTimeout = 20*time.Millisecond, time.Hour
	s := start(t, cfg)
	p := s.peer(t)
	part := append(head(2*mib-1), make([]byte, 1900<<10)...)
	for range 7 {
		st := p.open(t, produceMethod, "known")
		go func() { _, _ = st.Write(part) }()
	}
	require.Eventually(t, func() bool { return s.held(t, "requests") > 14*mib }, eventually, tick)
	client := logv1.NewLogServiceClient(s.client(t))
	require.Eventually(t, func() bool {
		// He is in the way of others himself when he waits for long.
		_, err := client.Produce(keyed(t.Context()), produceOf(2*mib-100))
		return err == nil
	}, eventually, tick)
	require.Positive(t, s.value(t, "sluice_grpc_calls_cut_total", "memory"))
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A length that nothing follows takes no memory but that of a stream.
func TestClaimedLengthsTakeNoMemory(t *testing.T) {
	s := start(t, limits())
	p := s.peer(t)
	for range 50 {
		_, err := p.open(t, produceMethod, "known").Write(head(2*mib - 1))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.value(t, "sluice_grpc_calls") == 50 }, eventually, tick)
	require.LessOrEqual(t, s.held(t, "requests"), int64(50*144<<10))
	st := p.open(t, produceMethod, "known")
	_, err := st.Write(append(head(1<<31), 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(int(codes.ResourceExhausted)), st.status(t))
}

// A small message that inflates to a large one takes room for that before.
func TestInflatedMessages(t *testing.T) {
	s := start(t, limits())
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(make([]byte, 16*mib))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Less(t, b.Len(), mib)
	client := logv1.NewLogServiceClient(s.client(t))
	require.Equal(t, codes.ResourceExhausted, codeOf(client.Produce(keyed(t.Context()), produceOf(17*mib), grpc.UseCompressor("gzip"))))
	st := s.peer(t).open(t, produceMethod, "known")
	_, err = st.Write(append(binary.BigEndian.AppendUint32([]byte{1}, uint32(b.Len())), b.Bytes()[:1000]...))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.held(t, "requests") >= 2*mib }, eventually, tick)
	st.cancel()
	s.idle(t)
}

// Who stops in the middle of a message, or sends it too slowly, is cut off and told.
func TestSlowMessages(t *testing.T) {
	for name, set := range map[string]func(s *server, st *stream){
		"stops": func(_ *server, st *stream) { _, _ = st.Write(append(head(mib), 1, 2, 3)) },
		"never begins": func(*server, *stream) {
		},
		"does not end": func(_ *server, st *stream) { _, _ = st.Write(head(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := limits()
			cfg.StallTimeout = 10 * time.Millisecond
			s := start(t, cfg)
			st := s.peer(t).open(t, produceMethod, "known")
			set(s, st)
			require.Equal(t, fmt.Sprint(int(codes.DeadlineExceeded)), st.status(t))
			s.idle(t)
		})
	}
	t.Run("drips", func(t *testing.T) {
		cfg := limits()
		cfg.MessageTimeout = 100 * time.Millisecond
		s := start(t, cfg)
		st := s.peer(t).open(t, produceMethod, "known")
		go func() {
			b := head(2*mib - 1)
			for {
				if _, err := st.Write(b); err != nil {
					return
				}
				b = []byte{1}
			}
		}()
		require.Equal(t, fmt.Sprint(int(codes.DeadlineExceeded)), st.status(t))
		_ = st.CloseWithError(context.Canceled)
	})
}

// What the door has to say of a call arrives as any error does.
func TestTwoMessages(t *testing.T) {
	s := start(t, limits())
	call, err := s.client(t).NewStream(keyed(t.Context()), &grpc.StreamDesc{ClientStreams: true}, produceMethod)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, call.SendMsg(produceOf(10)))
	}
	refused, ok := errs.From(errs.FromStatus(call.RecvMsg(&logv1.ProduceResponse{})))
	require.True(t, ok)
	require.Equal(t, errs.InvalidArgument, refused.Kind())
	require.Equal(t, "MALFORMED_MESSAGE", refused.Reason())
	require.Equal(t, "the call has more than the one message that its method takes", refused.Message())
	require.Zero(t, s.log.produced.Load())
}

// Hundreds of calls whose answers nobody takes hold what there is for answers. Others
// come through, since those are cut off for them.
func TestAnswersThatNobodyTakes(t *testing.T) {
	cfg := limits()
	cfg.StallGrace, cfg.BudgetTimeout = 20*time.Millisecond, 500*time.Millisecond
	s := start(t, cfg)
	s.log.value = make([]byte, 6*mib)
	before := heap()
	request := messageOf(t, &logv1.ConsumeRequest{Topic: "t", MaxBytes: proto.Int32(4 * mib)})
	for range 4 {
		p := s.peer(t)
		for range 75 {
			st := p.open(t, consumeMethod, "known")
			go func() {
				_, _ = st.Write(request)
				_ = st.Close()
			}()
		}
	}
	// They wait for each other too, so all may be cut off by the time that anybody looks.
	require.Eventually(t, func() bool {
		return s.held(t, "answers") > 5*mib || s.value(t, "sluice_grpc_calls_cut_total", "memory") > 0
	}, eventually, tick)
	client := logv1.NewLogServiceClient(s.client(t))
	var top int64
	for range 3 {
		// Who comes while most of the others do is told to try again.
		var last atomic.Value
		require.Eventually(t, func() bool {
			_, err := client.Produce(keyed(t.Context()), produceOf(10))
			last.Store(fmt.Sprint(err))
			return err == nil
		}, eventually, tick, "%v", &last)
		top = max(top, heap()-before)
		require.LessOrEqual(t, s.held(t, "answers"), cfg.BudgetBytes)
	}
	require.Eventually(t, func() bool {
		_, err := client.Consume(keyed(t.Context()), &logv1.ConsumeRequest{Topic: "t"})
		return err == nil
	}, eventually, tick)
	// Their answers are 1,800 MiB. What a client of net/http takes without being asked
	// is 4 MiB a stream, of those that got an answer.
	require.Less(t, top, int64(200*mib))
}

// Who takes nothing of an answer for long is cut off although nobody needs the memory.
func TestSlowReaders(t *testing.T) {
	cfg := limits()
	cfg.StallTimeout = 10 * time.Millisecond
	s := start(t, cfg)
	s.log.value = make([]byte, 12*mib)
	// What is too slow on a busy machine may be the request, which ends with a status.
	for attempt := 0; ; attempt++ {
		require.Less(t, attempt, 20, "no reader was cut off")
		before := s.value(t, "sluice_grpc_calls_cut_total", "slow")
		st := s.peer(t).open(t, consumeMethod, "known")
		_, _ = st.Write(messageOf(t, &logv1.ConsumeRequest{Topic: "t"}))
		_ = st.Close()
		require.Eventually(t, func() bool { return s.value(t, "sluice_grpc_calls_cut_total", "slow") > before }, eventually, tick)
		s.idle(t)
		ended := st.status(t)
		if ended == "reset" {
			break
		}
		require.Equal(t, fmt.Sprint(int(codes.DeadlineExceeded)), ended)
	}
}

// What a handler uses is held until it has returned, although its client has gone.
func TestAHandlerThatOutlivesItsCall(t *testing.T) {
	s := start(t, limits())
	s.log.gate = make(chan struct{})
	client := logv1.NewLogServiceClient(s.client(t))
	ctx, cancel := context.WithCancel(keyed(t.Context()))
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = client.Produce(ctx, produceOf(mib)) })
	require.Eventually(t, func() bool { return s.log.produced.Load() == 1 }, eventually, tick)
	cancel()
	calls.Wait()
	require.Never(t, func() bool { return s.held(t, "requests") < mib }, 50*time.Millisecond, tick)
	close(s.log.gate)
	s.idle(t)
}

// A panic is the failure of one call.
func TestPanics(t *testing.T) {
	s := start(t, limits())
	s.log.broken.Store(true)
	client := logv1.NewLogServiceClient(s.client(t))
	require.Equal(t, codes.Internal, codeOf(client.Produce(keyed(t.Context()), produceOf(1))))
	s.log.broken.Store(false)
	s.keys.broken.Store(true)
	require.NotEqual(t, codes.OK, codeOf(client.Produce(keyed(t.Context()), produceOf(1))), "what is before grpc-go")
	s.keys.broken.Store(false)
	require.Equal(t, codes.OK, codeOf(client.Produce(keyed(t.Context()), produceOf(1))))
	s.idle(t)
}

// Streams that everybody may open are few, take small messages, and end at a stop.
func TestOpenMethods(t *testing.T) {
	s := start(t, limits())
	conn := s.client(t)
	client := healthv1.NewHealthClient(conn)
	require.Equal(t, codes.ResourceExhausted, codeOf(client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: string(make([]byte, 20<<10))})))
	_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	// A call has its part of the room until a moment after its client has the answer.
	s.idle(t)
	var watches []grpc.ServerStreamingClient[healthv1.HealthCheckResponse]
	for range 100 {
		watch, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		watches = append(watches, watch)
	}
	open, refused := 0, 0
	for _, watch := range watches {
		if _, err := watch.Recv(); err == nil {
			open++
		} else {
			require.Equal(t, codes.Unavailable, status.Code(err))
			refused++
		}
	}
	require.Equal(t, 14, open)
	require.Equal(t, 86, refused)
	_, err = client.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err, "who asks once has an answer however many watch")
	require.NoError(t, s.stop())
	for _, watch := range watches {
		_, err := watch.Recv()
		for err == nil {
			_, err = watch.Recv()
		}
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	}
}

func codeOf[T any](_ T, err error) codes.Code { return status.Code(err) }

// What is not gRPC is refused, and so is what is not HTTP/2.
func TestOtherProtocols(t *testing.T) {
	cfg := limits()
	cfg.HandshakeTimeout = 100 * time.Millisecond
	strangers := start(t, cfg)
	for _, sent := range []string{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\x00\x01\x02\x03\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame"} {
		conn, err := net.Dial("tcp", strangers.address)
		require.NoError(t, err)
		_, err = conn.Write([]byte(sent))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(eventually)))
		_, err = io.Copy(io.Discard, conn)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "%q", sent)
		require.NoError(t, conn.Close())
	}
	// One that has time for a client that speaks HTTP/2.
	s := start(t, limits())
	p := s.peer(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/topics", http.NoBody)
	require.NoError(t, err)
	resp, err := p.transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode)
	require.Equal(t, fmt.Sprint(int(codes.Unimplemented)), func() string {
		st := p.open(t, "/sluice.log.v1.LogService/Nothing", "known")
		_ = st.Close()
		return st.status(t)
	}())
	s.idle(t)
}

// A record of two bytes takes a hundred, so messages with many are refused before they
// are decoded, and what others become is held.
func TestMessagesOfManyElements(t *testing.T) {
	s := start(t, limits())
	s.log.gate = make(chan struct{})
	client := logv1.NewLogServiceClient(s.client(t))
	records := func(n int) *logv1.ProduceRequest {
		r := &logv1.ProduceRequest{Topic: "t"}
		for range n {
			r.Records = append(r.Records, &logv1.ProduceRecord{})
		}
		return r
	}
	for _, n := range []int{1001, 500_000} {
		_, err := client.Produce(keyed(t.Context()), records(n))
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, "the message has more than 1000 elements")
	}
	s.idle(t)
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := client.Produce(keyed(t.Context()), records(1000))
		require.NoError(t, err)
	})
	require.Eventually(t, func() bool { return s.log.produced.Load() == 1 }, eventually, tick)
	require.Greater(t, s.held(t, "requests"), int64(1000*100))
	close(s.log.gate)
	calls.Wait()
	s.idle(t)
}

func TestMalformedMessages(t *testing.T) {
	s := start(t, limits())
	st := s.peer(t).open(t, produceMethod, "known")
	_, err := st.Write(append(head(3), 0x12, 0x7f, 0))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.Equal(t, fmt.Sprint(int(codes.InvalidArgument)), st.status(t))
	require.Zero(t, s.log.produced.Load())
}
