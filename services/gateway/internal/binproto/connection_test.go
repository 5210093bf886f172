package binproto_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
)

// gate holds back the requests of some topics.
type gate struct {
	mu      sync.Mutex
	closed  map[string]chan struct{}
	waiting int
}

func (g *gate) close(t *testing.T, topic string) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(map[string]chan struct{})
	}
	ch := make(chan struct{})
	g.closed[topic] = ch
	open = sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.closed, topic)
		close(ch)
	})
	// A test that failed does not hang.
	t.Cleanup(open)
	return open
}

func (g *gate) pass(topic string, _ int) {
	g.mu.Lock()
	ch := g.closed[topic]
	g.waiting++
	g.mu.Unlock()
	if ch != nil {
		<-ch
	}
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
}

func (g *gate) inside() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func TestProducesToOneTopicKeepTheirOrder(t *testing.T) {
	g := &gate{}
	d := start(t, &fake{before: g.pass})
	open := g.close(t, "slow")
	c := d.join(t, "", 0)
	var want []string
	for i := range 20 {
		value := fmt.Sprint(i)
		if i == 7 {
			// It takes no other along.
			c.ask(produce, records("slow", val("refused")))
			continue
		}
		want = append(want, value)
		c.ask(produce, records("slow", val(value)))
		if i == 0 {
			require.Eventually(t, func() bool { return g.inside() == 1 }, eventually, tick)
		}
	}
	// Others overtake.
	fast := c.call(produce, records("fast", val("x")))
	require.Equal(t, placed(0), fast.payload)
	require.Equal(t, byte(0x82), c.call(consume, reading("fast", 0)).op)
	require.Empty(t, d.written("slow"))

	open()
	offset := uint64(0)
	for i := range 20 {
		got := c.next()
		require.Equal(t, uint32(i+1), got.id, "answered in their order")
		if i == 7 {
			require.Equal(t, frame{8, 0xff, "refused"}, got)
			continue
		}
		require.Equal(t, placed(offset), got.payload)
		offset++
	}
	require.Equal(t, want, d.written("slow"))
	require.Equal(t, []int{1, 1, 19}, d.sizes(), "those that waited were written together")
}

func TestThirtyTwoRequestsAtOnce(t *testing.T) {
	g := &gate{}
	d := start(t, &fake{before: g.pass})
	open := g.close(t, "t")
	c := d.join(t, "", 0)
	for range 33 {
		c.ask(consume, str16("t")+u32(0)+u64(0)+u32(1)+u32(1))
	}
	require.Eventually(t, func() bool { return g.inside() == 32 }, eventually, tick)
	// Another connection is not held up.
	d.join(t, "", 0).alive()
	// The 33rd is not begun, however long it waits.
	require.Never(t, func() bool { return g.inside() > 32 }, 50*time.Millisecond, tick)
	open()
	seen := map[uint32]bool{}
	for range 33 {
		got := c.next()
		require.Equal(t, byte(0x82), got.op)
		seen[got.id] = true
	}
	require.Len(t, seen, 33)
	c.alive()
}

// Of large requests fewer than 32 are taken, so that one connection does not hold
// the memory of all.
func TestBytesOfOneConnection(t *testing.T) {
	g := &gate{}
	d := start(t, &fake{before: g.pass}, func(c *binproto.Config, _ *binproto.Deps) { c.ConnectionBytes = 1 << 20 })
	open := g.close(t, "t")
	c := d.join(t, "", 0)
	for range 2 {
		c.ask(produce, records("t", val(strings.Repeat("x", 800<<10))))
	}
	c.alive()
	// The third is not read, and nothing behind it.
	c.send(append(frame{7, produce, records("t", val("x"))}.bytes(false), frame{8, ping, ""}.bytes(false)...))
	require.NoError(t, c.conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	open()
	seen := map[uint32]byte{}
	for range 4 {
		got := c.next()
		seen[got.id] = got.op
	}
	require.Equal(t, map[uint32]byte{1: 0x81, 2: 0x81, 7: 0x81, 8: 0x83}, seen)
}

func grant(action registryv1.Action, prefix string) *registryv1.Principal {
	return &registryv1.Principal{Id: "key", Grants: []*registryv1.Grant{{Action: action, TopicPrefix: prefix}}}
}

// Whoever is not granted a topic is told before anything else of the frame is
// looked at.
func TestGrants(t *testing.T) {
	f := &fake{}
	f.require(map[string]*registryv1.Principal{
		"writer": grant(registryv1.Action_ACTION_WRITE, "orders"),
		"reader": grant(registryv1.Action_ACTION_READ, "orders"),
	})
	d := start(t, f)
	for _, compress := range []uint32{0, 1} {
		writer, reader := d.join(t, "writer", compress), d.join(t, "reader", compress)
		require.Equal(t, byte(0x81), writer.call(produce, records("orders.eu", val("x"))).op)
		require.Equal(t, byte(0x82), reader.call(consume, reading("orders.eu", 0)).op)
		for c, bad := range map[*client]frame{
			writer: {0, produce, str16("billing") + "no produce at all"},
			reader: {0, produce, str16("orders") + "no produce at all"},
		} {
			got := c.call(bad.op, bad.payload)
			require.Equal(t, byte(0xff), got.op)
			require.Contains(t, got.payload, "the key is not granted write on topic")
		}
		require.Contains(t, writer.call(consume, str16("billing")).payload, "the key is not granted read on topic")
		if compress == 1 {
			// The rest is no gzip stream; nobody finds out.
			sound := zip([]byte(str16("billing") + strings.Repeat("random", 1000)))
			writer.last++
			writer.send(frame{writer.last, produce, string(sound[:len(sound)-8])}.bytes(false))
			require.Contains(t, writer.next().payload, "not granted")
		}
		writer.alive()
		reader.alive()
	}
}

func TestRevocation(t *testing.T) {
	g := &gate{}
	f := &fake{before: g.pass}
	f.require(map[string]*registryv1.Principal{"secret": grant(registryv1.Action_ACTION_WRITE, "*")})
	d := start(t, f)
	t.Run("the next frame", func(t *testing.T) {
		c := d.join(t, "secret", 0)
		c.alive()
		f.require(map[string]*registryv1.Principal{})
		got := c.call(produce, records("t", val("x")))
		require.Equal(t, frame{got.id, 0xff, "no or unknown key"}, got)
		c.over()
	})
	t.Run("in the middle of a frame", func(t *testing.T) {
		for _, request := range []frame{
			{1, produce, records("middle", val(strings.Repeat("x", 100_000)))},
			{1, consume, reading("middle", 0)},
		} {
			f.require(map[string]*registryv1.Principal{"secret": grant(registryv1.Action_ACTION_WRITE, "*")})
			asked := f.authenticated()
			c := d.join(t, "secret", 0)
			sent := request.bytes(false)
			c.send(sent[:len(sent)-1])
			// Once for the handshake, once for the frame.
			require.Eventually(t, func() bool { return f.authenticated() == asked+2 }, eventually, tick)
			f.require(map[string]*registryv1.Principal{})
			c.send(sent[len(sent)-1:])
			require.Equal(t, frame{1, 0xff, "no or unknown key"}, c.next())
			c.over()
			require.Empty(t, d.written("middle"))
		}
	})
	t.Run("a request that waited in line", func(t *testing.T) {
		f.require(map[string]*registryv1.Principal{"secret": grant(registryv1.Action_ACTION_WRITE, "*")})
		open := g.close(t, "t")
		c := d.join(t, "secret", 0)
		c.ask(produce, records("t", val("first")))
		require.Eventually(t, func() bool { return g.inside() == 1 }, eventually, tick)
		c.ask(produce, records("t", val("second")))
		// Once this is answered the second one stands in line.
		c.alive()
		f.require(map[string]*registryv1.Principal{})
		open()
		require.Equal(t, frame{1, 0x81, placed(0)}, c.next())
		require.Equal(t, frame{2, 0xff, "no or unknown key"}, c.next())
		require.Equal(t, []string{"first"}, d.written("t"))
	})
}

func TestIdleTimeout(t *testing.T) {
	g := &gate{}
	d := start(t, &fake{before: g.pass}, func(c *binproto.Config, _ *binproto.Deps) { c.IdleTimeout = 100 * time.Millisecond })
	d.join(t, "", 0).over()

	// A connection with a request under way is not idle.
	open := g.close(t, "t")
	// Its request comes with the handshake, or it might be idle before.
	c := d.dial(t)
	c.last = 1
	c.send(append(hello("ES01", 0, ""), frame{c.last, produce, records("t", val("x"))}.bytes(false)...))
	require.Equal(t, reply(0, 0, ""), c.read(13))
	d.join(t, "", 0).over()
	d.join(t, "", 0).over()
	c.alive()
	open()
	require.Equal(t, placed(0), c.next().payload)
	c.over()
}

func TestConnectionsPerAddress(t *testing.T) {
	d := start(t, &fake{}, func(c *binproto.Config, _ *binproto.Deps) { c.ConnectionsPerAddress = 2 })
	first, second := d.join(t, "", 0), d.join(t, "", 0)
	third := d.dial(t)
	third.over()
	first.alive()
	second.alive()
	// Another address is another matter.
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if conn, err := other.Dial("tcp", d.address); err == nil {
		c := &client{tb: t, conn: conn}
		c.send(hello("ES01", 0, ""))
		c.read(13)
		require.NoError(t, conn.Close())
	}
	first.conn.Close()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", d.address)
		require.NoError(t, err)
		defer conn.Close()
		_, _ = conn.Write(hello("ES01", 0, ""))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(eventually)))
		n, _ := conn.Read(make([]byte, 13))
		return n == 13
	}, eventually, tick)
}

// A client that does not read answers is disconnected, and nobody else waits for
// it.
func TestSlowReader(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	d := start(t, &fake{}, observed(s), func(c *binproto.Config, _ *binproto.Deps) { c.WriteTimeout = time.Second })
	other := d.join(t, "", 0)
	for range 8 {
		require.Equal(t, byte(0x81), other.call(produce, records("t", val(strings.Repeat("x", 1000_000)))).op)
	}
	slow := d.join(t, "", 0)
	require.NoError(t, slow.conn.(*net.TCPConn).SetReadBuffer(4<<10))
	for range 16 {
		if _, err := slow.conn.Write(frame{1, consume, reading("t", 0)}.bytes(false)); err != nil {
			break
		}
	}
	require.Eventually(t, func() bool {
		other.alive()
		return strings.Contains(d.log.String(), "a client takes no answers")
	}, eventually, tick)
	// All that it had asked for is given back. What others ask is small: they too have but
	// a second.
	s.comesTo(0, "budget_bytes{budget=answers}")
	require.Equal(t, byte(0x82), other.call(consume, reading("empty", 0)).op)
}

func TestStop(t *testing.T) {
	g := &gate{}
	d := start(t, &fake{before: g.pass})
	open := g.close(t, "t")
	idle, busy := d.join(t, "", 0), d.join(t, "", 0)
	busy.ask(produce, records("t", val("x")))
	require.Eventually(t, func() bool { return g.inside() == 1 }, eventually, tick)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		d.stop()
	}()
	idle.over()
	open()
	require.Equal(t, frame{1, 0x81, placed(0)}, busy.next())
	busy.over()
	idle.conn.Close()
	busy.conn.Close()
	<-stopped
}

func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	g := &gate{}
	d := start(t, &fake{before: g.pass}, func(c *binproto.Config, _ *binproto.Deps) { c.Grace = 50 * time.Millisecond })
	open := g.close(t, "t")
	c := d.join(t, "", 0)
	c.ask(produce, records("t", val("x")))
	require.Eventually(t, func() bool { return g.inside() == 1 }, eventually, tick)
	go d.stop()
	c.over()
	open()
	d.stop()
}

func TestPanicIsAnInternalError(t *testing.T) {
	d := start(t, &fake{before: func(topic string, _ int) {
		if topic == "panic" {
			panic("on fire")
		}
	}})
	c := d.join(t, "", 0)
	for op, payload := range map[byte]string{produce: records("panic", val("x")), consume: reading("panic", 0)} {
		got := c.call(op, payload)
		require.Equal(t, byte(0xff), got.op)
		require.Regexp(t, `^internal error \(id .+\)$`, got.payload)
	}
	require.Equal(t, placed(0), c.call(produce, records("t", val("x"))).payload)
	require.Contains(t, d.log.String(), "on fire")
}
