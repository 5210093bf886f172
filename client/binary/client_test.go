package binary_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/client/binary"
)

var one = binary.Produce{Topic: "t", Records: []binary.Record{{Value: []byte("x")}}}

// numbered is one of a producer with a sequence, which can be sent twice.
func numbered(n int64) binary.Produce {
	return binary.Produce{Topic: "t", ProducerID: "p", Records: []binary.Record{{Value: fmt.Append(nil, n), Sequence: binary.Seq(n)}}}
}

func TestGolden(t *testing.T) {
	want := map[byte]string{
		0x01: "\x00\x06orders" + "\x00\x00\x00\x01p" + "\x00\x00\x00\x02" +
			"\x00\x00\x00\x02k1" + "\x00\x00\x00\x05hello" + "\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x2a" +
			"\xff\xff\xff\xff" + "\x00\x00\x00\x00" + "\xff\xff\xff\xff" + "\x80\x00\x00\x00\x00\x00\x00\x00",
		0x02: "\x00\x06orders" + "\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x64" + "\x00\x10\x00\x00",
		0x03: "",
	}
	answers := map[byte]string{
		0x01: "\x00\x00\x00\x02" + "\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x05" + "\x01" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x06" + "\x00",
		0x02: "\x00\x00\x00\x00\x00\x00\x00\x08" + "\x00\x00\x00\x00\x00\x00\x00\x09" + "\x00\x00\x00\x02" +
			"\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x00\x00\x00\x03\xe8" + "\x00\x00\x00\x01k" + "\x00\x00\x00\x02vv" +
			"\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x08" + "\x00\x00\x00\x00\x00\x00\x03\xe9" + "\xff\xff\xff\xff" + "\x00\x00\x00\x00",
		0x03: "",
	}
	for _, features := range []uint32{0, 1} {
		s := serve(t, &server{features: features, answer: func(_ int, id uint32, op byte, payload []byte) []byte {
			if want[op] != string(payload) {
				return frame(id, 0xff, []byte("unexpected"))
			}
			answer := []byte(answers[op])
			if features == 1 {
				answer = zip(answer)
			}
			return frame(id, op|0x80, answer)
		}})
		c, err := binary.New(s.address, binary.WithToken("secret"), binary.WithGzip())
		require.NoError(t, err)
		got, err := c.Produce(t.Context(), binary.Produce{Topic: "orders", ProducerID: "p", Records: []binary.Record{
			{Key: []byte("k1"), Value: []byte("hello"), Partition: binary.To(3), Sequence: binary.Seq(42)}, {},
		}})
		require.NoError(t, err)
		require.Equal(t, []binary.Placed{{Partition: 3, Offset: 5, Duplicate: true}, {Offset: 6}}, got)
		fetched, err := c.Consume(t.Context(), binary.Consume{Topic: "orders", Partition: 3, Offset: 7})
		require.NoError(t, err)
		require.Equal(t, &binary.Fetched{NextOffset: 8, HighWatermark: 9, Records: []binary.Stored{
			{Partition: 3, Offset: 7, TimestampMs: 1000, Key: []byte("k"), Value: []byte("vv")},
			{Partition: 3, Offset: 8, TimestampMs: 1001, Value: []byte{}},
		}}, fetched)
		require.NoError(t, c.Ping(t.Context()))
		require.NoError(t, c.Close())
		require.Equal(t, "ES01"+"\x00\x00\x00\x01"+"\x00\x00\x00\x06secret", string(s.hello))
		require.Equal(t, 1, s.connections())
	}
}

func TestRefusedHandshake(t *testing.T) {
	s := serve(t, &server{status: 2})
	c, err := binary.New(s.address)
	require.NoError(t, err)
	var refused *binary.HandshakeError
	require.ErrorAs(t, c.Ping(t.Context()), &refused)
	require.Equal(t, &binary.HandshakeError{Status: binary.StatusAuthFailed, Message: "because"}, refused)
	require.Equal(t, 1, s.connections(), "asking again does not help")
	p, err := binary.NewPipelined(s.address)
	require.NoError(t, err)
	require.ErrorAs(t, p.Ping(t.Context()), &refused)
	require.NoError(t, p.Close())
}

// requester is what both clients do.
type requester interface {
	Produce(ctx context.Context, p binary.Produce) ([]binary.Placed, error)
	Consume(ctx context.Context, r binary.Consume) (*binary.Fetched, error)
	Ping(ctx context.Context) error
	Close() error
}

// onBoth runs a test on each client.
func onBoth(t *testing.T, fresh func() *server, test func(t *testing.T, c requester, s *server)) {
	t.Run("client", func(t *testing.T) {
		s := serve(t, fresh())
		c, err := binary.New(s.address, binary.WithAttempts(3))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		test(t, c, s)
	})
	t.Run("pipelined", func(t *testing.T) {
		s := serve(t, fresh())
		c, err := binary.NewPipelined(s.address, binary.WithAttempts(3))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		test(t, c, s)
	})
}

// The first connection breaks when a request comes.
func breaksOnce() *server {
	return &server{answer: func(n int, id uint32, op byte, _ []byte) []byte {
		switch {
		case n == 1:
			return nil
		case op == 0x01:
			return frame(id, 0x81, placed(7))
		default:
			return frame(id, op|0x80, nil)
		}
	}}
}

func TestBrokenConnection(t *testing.T) {
	onBoth(t, breaksOnce, func(t *testing.T, c requester, _ *server) {
		_, err := c.Produce(t.Context(), one)
		var unknown *binary.OutcomeUnknownError
		require.ErrorAs(t, err, &unknown, "it may have been written")
		require.Equal(t, 1, unknown.Records)
		got, err := c.Produce(t.Context(), one)
		require.NoError(t, err, "the next one connects again")
		require.Equal(t, []binary.Placed{{Offset: 7}}, got)
	})
	onBoth(t, breaksOnce, func(t *testing.T, c requester, s *server) {
		got, err := c.Produce(t.Context(), numbered(1))
		require.NoError(t, err, "it cannot be written twice")
		require.Equal(t, []binary.Placed{{Offset: 7}}, got)
		require.Equal(t, 2, s.connections())
	})
	onBoth(t, breaksOnce, func(t *testing.T, c requester, s *server) {
		require.NoError(t, c.Ping(t.Context()))
		require.Equal(t, 2, s.connections())
	})
}

func TestServerErrors(t *testing.T) {
	refuses := func() *server {
		return &server{answer: func(_ int, id uint32, _ byte, _ []byte) []byte { return frame(id, 0xff, []byte("no")) }}
	}
	onBoth(t, refuses, func(t *testing.T, c requester, s *server) {
		var refused *binary.ServerError
		_, err := c.Produce(t.Context(), one)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "no", refused.Message)
		_, err = c.Consume(t.Context(), binary.Consume{Topic: "t"})
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 1, s.connections(), "the connection goes on")
	})
}

func TestMalformedAnswers(t *testing.T) {
	for name, answer := range map[string]func(id uint32) []byte{
		"another request":    func(id uint32) []byte { return frame(id+1, 0x81, placed(0)) },
		"another opcode":     func(id uint32) []byte { return frame(id, 0x82, placed(0)) },
		"an unknown opcode":  func(id uint32) []byte { return frame(id, 0x44, nil) },
		"a length of 0":      func(uint32) []byte { return make([]byte, 9) },
		"a length of 4 GiB":  func(uint32) []byte { return []byte(strings.Repeat("\xff", 9)) },
		"too few records":    func(id uint32) []byte { return frame(id, 0x81, make([]byte, 4)) },
		"half of a record":   func(id uint32) []byte { return frame(id, 0x81, placed(0)[:10]) },
		"more than a record": func(id uint32) []byte { return frame(id, 0x81, append(placed(0), 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			broken := func() *server {
				return &server{answer: func(_ int, id uint32, _ byte, _ []byte) []byte { return answer(id) }}
			}
			onBoth(t, broken, func(t *testing.T, c requester, _ *server) {
				_, err := c.Produce(t.Context(), one)
				require.ErrorIs(t, err, binary.ErrMalformed)
				var unknown *binary.OutcomeUnknownError
				require.ErrorAs(t, err, &unknown, "it was sent")
			})
		})
	}
}

func TestNobodyListens(t *testing.T) {
	// A port that was free a moment ago may be another test's by now; this one is nobody's.
	const address = "127.0.0.1:1"
	c, err := binary.New(address, binary.WithAttempts(2))
	require.NoError(t, err)
	p, err := binary.NewPipelined(address, binary.WithAttempts(2))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for _, c := range []requester{c, p} {
		_, err := c.Produce(t.Context(), one)
		var failed *binary.ConnectError
		require.ErrorAs(t, err, &failed, "nothing was sent")
	}
}

func TestContext(t *testing.T) {
	silent := func() *server { return &server{silent: make(chan struct{}, 1)} }
	onBoth(t, silent, func(t *testing.T, c requester, s *server) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-s.silent
			cancel()
		}()
		_, err := c.Produce(ctx, one)
		require.ErrorIs(t, err, context.Canceled)
		var unknown *binary.OutcomeUnknownError
		require.ErrorAs(t, err, &unknown)
	})
}

func TestPipelinedKeepsOrderOverReconnects(t *testing.T) {
	var mu sync.Mutex
	var arrived []string
	var frames atomic.Int32
	s := serve(t, &server{answer: func(_ int, id uint32, _ byte, payload []byte) []byte {
		if frames.Add(1)%10 == 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		// The value of the only record is between its length and its partition.
		const before, after = 2 + 1 + 4 + 1 + 4 + 4 + 4, 4 + 8
		arrived = append(arrived, string(payload[before:len(payload)-after]))
		return frame(id, 0x81, placed(0))
	}})
	// Of what was answered the end of the connection may take a part along, so that those
	// behind are sent often.
	p, err := binary.NewPipelined(s.address, binary.WithInFlight(16), binary.WithAttempts(100))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	var futures []*binary.Future[[]binary.Placed]
	for n := range int64(50) {
		f, err := p.Send(t.Context(), numbered(n))
		require.NoError(t, err)
		futures = append(futures, f)
	}
	for _, f := range futures {
		_, err := f.Wait(t.Context())
		require.NoError(t, err)
	}
	// Repetitions come in order, too: what is new is always the next.
	next := 0
	mu.Lock()
	defer mu.Unlock()
	for _, value := range arrived {
		if value == fmt.Sprint(next) {
			next++
		}
	}
	require.Equal(t, 50, next, arrived)
}

// What became of a produce that was sent is unknown, whatever keeps it from being
// sent again.
func TestTheFirstOfTwoMayHaveBeenWritten(t *testing.T) {
	var unknown *binary.OutcomeUnknownError
	onBoth(t, func() *server {
		s := breaksOnce()
		s.status, s.refusedFrom = 2, 2
		return s
	}, func(t *testing.T, c requester, _ *server) {
		_, err := c.Produce(t.Context(), numbered(1))
		require.ErrorAs(t, err, &unknown)
		var refused *binary.HandshakeError
		require.ErrorAs(t, err, &refused)
	})
	onBoth(t, func() *server {
		return &server{answer: func(n int, id uint32, _ byte, _ []byte) []byte {
			if n == 1 {
				return nil
			}
			return frame(id, 0xff, []byte("no leader"))
		}}
	}, func(t *testing.T, c requester, _ *server) {
		_, err := c.Produce(t.Context(), numbered(1))
		require.ErrorAs(t, err, &unknown)
		var refused *binary.ServerError
		require.ErrorAs(t, err, &refused)
		_, err = c.Produce(t.Context(), numbered(2))
		require.ErrorAs(t, err, &refused)
		require.NotErrorAs(t, err, &unknown, "it was sent once, and refused")
	})
}

func TestServersThatDoNotKnow(t *testing.T) {
	for message, known := range map[string]bool{
		"no": true,
		"the outcome is unknown: records of this request may or may not have been written to partition 0 of topic \"t\"": false,
		"internal error (id 5f)":                                                      false,
		"no leader (the records for 1 of 2 partitions were written)":                  false,
		"no leader (the records for 1 of 2 partitions were written) (retry after 1s)": false,
		"too many bytes of requests are under way (retry after 1s)":                   true,
	} {
		t.Run(message, func(t *testing.T) {
			says := func() *server {
				return &server{answer: func(_ int, id uint32, _ byte, _ []byte) []byte { return frame(id, 0xff, []byte(message)) }}
			}
			onBoth(t, says, func(t *testing.T, c requester, _ *server) {
				_, err := c.Produce(t.Context(), one)
				var refused *binary.ServerError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, message, refused.Message)
				want := time.Duration(0)
				if strings.Contains(message, "retry") {
					want = time.Second
				}
				require.Equal(t, want, refused.RetryAfter)
				var unknown *binary.OutcomeUnknownError
				require.Equal(t, !known, errors.As(err, &unknown))
				_, err = c.Consume(t.Context(), binary.Consume{Topic: "t"})
				require.ErrorAs(t, err, &refused)
				require.NotErrorAs(t, err, &unknown, "a read has no outcome")
			})
		})
	}
}

// unreachable is a dialer that gets nowhere until it is told to stop.
func unreachable(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCloseWithFullQueues(t *testing.T) {
	p, err := binary.NewPipelined("nowhere:1", binary.WithDialer(unreachable), binary.WithInFlight(2))
	require.NoError(t, err)
	var futures []*binary.Future[[]binary.Placed]
	for range 2 {
		f, err := p.Send(t.Context(), one)
		require.NoError(t, err)
		futures = append(futures, f)
	}
	ended := make(chan error)
	for range 3 {
		go func() {
			_, err := p.Send(t.Context(), one)
			ended <- err
		}()
	}
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	for range 3 {
		require.ErrorIs(t, <-ended, binary.ErrClosed)
	}
	for _, f := range futures {
		_, err := f.Wait(t.Context())
		require.ErrorIs(t, err, binary.ErrClosed)
		var unknown *binary.OutcomeUnknownError
		require.NotErrorAs(t, err, &unknown, "it was never sent")
	}
}

// A server that reads no more holds nobody up who closes.
func TestCloseWhileWriting(t *testing.T) {
	silent := func() *server { return &server{silent: make(chan struct{}, 1)} }
	onBoth(t, silent, func(t *testing.T, c requester, s *server) {
		large := binary.Produce{Topic: "t", Records: []binary.Record{{Value: make([]byte, 32<<20)}}}
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := c.Produce(t.Context(), large)
				ended <- err
			}()
		}
		// The first has arrived, the second is on its way or waits for its turn.
		<-s.silent
		require.NoError(t, c.Close())
		for range 2 {
			require.ErrorIs(t, <-ended, binary.ErrClosed)
		}
	})
}

func TestProduceThatWasNotSentIsTakenBack(t *testing.T) {
	dialing := make(chan struct{})
	s := serve(t, &server{answer: func(_ int, id uint32, _ byte, payload []byte) []byte {
		return frame(id, 0x81, placed(uint64(payload[len(payload)-13])))
	}})
	p, err := binary.NewPipelined(s.address, binary.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	value := func(b byte) binary.Produce {
		return binary.Produce{Topic: "t", Records: []binary.Record{{Value: []byte{b}}}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Produce(ctx, value(1))
	require.Equal(t, context.Canceled, err)
	require.Equal(t, context.Canceled, p.Ping(ctx))
	close(dialing)
	got, err := p.Produce(t.Context(), value(2))
	require.NoError(t, err)
	require.Equal(t, []binary.Placed{{Offset: 2}}, got)
}

func TestClose(t *testing.T) {
	s := serve(t, &server{silent: make(chan struct{}, 1)})
	p, err := binary.NewPipelined(s.address)
	require.NoError(t, err)
	f, err := p.Send(t.Context(), one)
	require.NoError(t, err)
	<-s.silent
	require.NoError(t, p.Close())
	_, err = f.Wait(t.Context())
	require.ErrorIs(t, err, binary.ErrClosed)
	_, err = p.Send(t.Context(), one)
	require.ErrorIs(t, err, binary.ErrClosed)

	c, err := binary.New(s.address)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Ping(t.Context()), binary.ErrClosed)
}

func TestInvalidRequestsAreNotSent(t *testing.T) {
	s := serve(t, &server{})
	c, err := binary.New(s.address)
	require.NoError(t, err)
	for _, p := range []binary.Produce{
		{Topic: strings.Repeat("t", 250)},
		{Topic: "t", Records: []binary.Record{{Partition: binary.To(-1)}}},
		{Topic: "t", Records: []binary.Record{{Sequence: binary.Seq(-1 << 63)}}},
	} {
		_, err := c.Produce(t.Context(), p)
		require.ErrorIs(t, err, binary.ErrInvalid)
	}
	_, err = c.Consume(t.Context(), binary.Consume{Topic: "t", Offset: -1})
	require.ErrorIs(t, err, binary.ErrInvalid)
	for _, option := range []binary.Option{binary.WithToken(strings.Repeat("x", 1025)), binary.WithAttempts(0), binary.WithInFlight(0), binary.WithDialer(nil)} {
		_, err := binary.New(s.address, option)
		require.ErrorIs(t, err, binary.ErrInvalid)
	}
	_, err = binary.New("nowhere")
	require.ErrorIs(t, err, binary.ErrInvalid)
	require.Zero(t, s.connections())
}
