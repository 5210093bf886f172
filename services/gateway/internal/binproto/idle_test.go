package binproto_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
)

func inUse() uint64 {
	// Twice: what is pooled outlives the first.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// A connection that was used and is idle keeps no buffer, no inflater and no deep
// stack: it takes some 8 KiB, with what the other side takes in this process.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const n, most = 400, 16 << 10
	d := start(t, &fake{}, func(_ *binproto.Config, deps *binproto.Deps) {
		deps.Requests, deps.Answers = semaphore.NewWeighted(1<<30), semaphore.NewWeighted(1<<30)
	})
	use := func(c *client) {
		require.Equal(t, byte(0x81), c.call(produce, records("t", val(strings.Repeat("x", 100)))).op)
		require.Equal(t, byte(0xff), c.call(produce, records("t", val("refused"), val(strings.Repeat("x", 100_000)))).op)
		require.Equal(t, byte(0x82), c.call(consume, reading("t", 1<<40)).op)
		c.alive()
	}
	for _, features := range []uint32{0, 1} {
		use(d.join(t, "", features))
	}
	before := inUse()
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = d.join(t, "", uint32(i%2))
		use(clients[i])
	}
	perConn := int(inUse()-before) / n
	t.Logf("%d bytes a connection", perConn)
	require.Less(t, perConn, most)
	for _, c := range clients {
		c.alive()
	}
}

// A crowd of clients that begin things and do not end them costs memory by the
// head, whatever they claim, and others are served meanwhile.
func TestHostileCrowd(t *testing.T) {
	const n, most = 400, 32 << 10
	d := start(t, &fake{})
	bystander := d.join(t, "", 0)
	bystander.alive()
	bomb := zip([]byte(records("t", val(strings.Repeat("\x00", 16<<20)))))
	acts := []func() *client{
		func() *client { return d.dial(t) },
		func() *client {
			c := d.dial(t)
			c.send([]byte("ES01\x00\x00\x00\x01\x00\x00\x04\x00half a token"))
			return c
		},
		func() *client {
			c := d.join(t, "", 0)
			c.send([]byte(u32(1<<20) + u32(1) + "\x01" + str16("t") + u32(0xffffffff) + u32(0xffffffff)))
			return c
		},
		func() *client {
			c := d.join(t, "", 0)
			c.send([]byte(u32(60_010) + u32(1) + "\x02" + "\xea\x60" + strings.Repeat("t", 50_000)))
			return c
		},
		func() *client {
			c := d.join(t, "", 1)
			random := make([]byte, 10_000)
			_, _ = rand.NewChaCha8([32]byte{}).Read(random)
			c.send(frame{1, produce, records("t", val(string(random)))}.bytes(true)[:5_000])
			return c
		},
		func() *client {
			c := d.join(t, "", 1)
			c.send(frame{1, produce, string(bomb)}.bytes(false))
			require.Equal(t, "the payload inflates to more than the limit of 1048576 bytes", c.next().payload)
			return c
		},
		func() *client {
			c := d.join(t, "", 0)
			c.send(frame{1, 0x77, strings.Repeat("x", 100_000)}.bytes(false))
			require.Equal(t, byte(0xff), c.next().op)
			c.send([]byte(u32(0xffffffff)))
			return c
		},
	}
	before := inUse()
	crowd := make([]*client, n)
	for i := range crowd {
		crowd[i] = acts[i%len(acts)]()
	}
	require.Equal(t, byte(0x81), bystander.call(produce, records("t", val("x"))).op)
	require.Equal(t, byte(0x82), bystander.call(consume, reading("t", 0)).op)
	require.Less(t, int(inUse()-before)/n, most)
	runtime.KeepAlive(crowd)
}
