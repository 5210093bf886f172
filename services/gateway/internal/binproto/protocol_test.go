package binproto_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
)

func errorsAs(err error, target any) bool { return errors.As(err, target) }

// Every byte of each kind of frame, both ways.
func TestGolden(t *testing.T) {
	d := start(t, &fake{})
	c := d.dial(t)
	c.send([]byte("ES01" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"))
	require.Equal(t, "ES01"+"\x00"+"\x00\x00\x00\x00"+"\x00\x00\x00\x00", string(c.read(13)))

	c.send([]byte("\x00\x00\x00\x05" + "\x01\x02\x03\x04" + "\x03"))
	require.Equal(t, "\x00\x00\x00\x05"+"\x01\x02\x03\x04"+"\x83", string(c.read(9)))

	c.send([]byte("\x00\x00\x00\x48" + "\x00\x00\x00\x07" + "\x01" +
		"\x00\x06orders" +
		"\xff\xff\xff\xff" + // no producer id
		"\x00\x00\x00\x02" +
		"\x00\x00\x00\x02k1" + "\x00\x00\x00\x05hello" + "\x00\x00\x00\x00" + "\x80\x00\x00\x00\x00\x00\x00\x00" +
		"\xff\xff\xff\xff" + "\x00\x00\x00\x04more" + "\xff\xff\xff\xff" + "\x80\x00\x00\x00\x00\x00\x00\x00"))
	require.Equal(t, "\x00\x00\x00\x23"+"\x00\x00\x00\x07"+"\x81"+
		"\x00\x00\x00\x02"+
		"\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00"+
		"\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x01"+"\x00", string(c.read(39)))

	c.send([]byte("\x00\x00\x00\x21" + "\xff\xff\xff\xff" + "\x02" +
		"\x00\x06orders" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00\x00\x00\x64" + "\x00\x10\x00\x00"))
	require.Equal(t, "\x00\x00\x00\x39"+"\xff\xff\xff\xff"+"\x82"+
		"\x00\x00\x00\x00\x00\x00\x00\x02"+"\x00\x00\x00\x00\x00\x00\x00\x02"+"\x00\x00\x00\x01"+
		"\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x01"+u64(1763500000000)+"\xff\xff\xff\xff"+"\x00\x00\x00\x04more", string(c.read(4+0x39)))

	c.send([]byte("\x00\x00\x00\x05" + "\x00\x00\x00\x09" + "\x7f"))
	require.Equal(t, frame{9, 0xff, "unknown opcode 0x7f, expected 0x01 (produce), 0x02 (consume) or 0x03 (ping)"}, c.next())
}

func TestHandshakes(t *testing.T) {
	f := &fake{}
	f.require(map[string]*registryv1.Principal{"secret": {Id: "key"}, strings.Repeat("x", 1024): {Id: "long"}})
	d := start(t, f)
	for name, h := range map[string]struct {
		send, want []byte
	}{
		"welcome":                 {hello("ES01", 0, "secret"), reply(0, 0, "")},
		"gzip":                    {hello("ES01", 1, "secret"), reply(0, 1, "")},
		"features of the future":  {hello("ES01", 0xfffffffe, "secret"), reply(0, 0, "")},
		"the longest token":       {hello("ES01", 0, strings.Repeat("x", 1024)), reply(0, 0, "")},
		"another protocol":        {[]byte("GET / HTTP/1.1\r\n\r\n"), reply(1, 0, `expected "ES01" first`)},
		"TLS":                     {[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), reply(1, 0, `expected "ES01" first`)},
		"a newer version":         {hello("ES02", 0, "secret"), reply(1, 0, `expected "ES01" first`)},
		"a wrong token":           {hello("ES01", 1, "wrong"), reply(2, 0, "no or unknown key")},
		"a token that is no text": {hello("ES01", 0, "\xff\xfe"), reply(2, 0, "the token is not a key")},
		"a token too long":        {hello("ES01", 0, strings.Repeat("x", 1025)), reply(2, 0, "a token has at most 1024 bytes, got 1025")},
		"a token of 4 GiB":        {[]byte("ES01" + u32(0) + u32(0xffffffff)), reply(2, 0, "a token has at most 1024 bytes, got 4294967295")},
		"no token":                {hello("ES01", 0, ""), reply(3, 0, "no or unknown key")},
	} {
		t.Run(name, func(t *testing.T) {
			c := d.dial(t)
			c.send(h.send)
			require.Equal(t, string(h.want), string(c.read(len(h.want))))
			if h.want[4] != 0 {
				c.over()
				return
			}
			c.gzip = h.want[8] == 1
			c.alive()
		})
	}
	t.Run("byte by byte", func(t *testing.T) {
		c := d.dial(t)
		for _, b := range hello("ES01", 0, "secret") {
			c.send([]byte{b})
		}
		require.Equal(t, reply(0, 0, ""), c.read(13))
	})
	t.Run("with the first frame", func(t *testing.T) {
		c := d.dial(t)
		c.send(append(hello("ES01", 0, "secret"), frame{1, ping, ""}.bytes(false)...))
		require.Equal(t, reply(0, 0, ""), c.read(13))
		require.Equal(t, frame{1, 0x83, ""}, c.next())
	})
}

func TestSlowHandshake(t *testing.T) {
	d := start(t, &fake{}, func(c *binproto.Config, _ *binproto.Deps) { c.HandshakeTimeout = 50 * time.Millisecond })
	c := d.dial(t)
	c.send([]byte("ES0"))
	c.over()
}

// Frames that are wrong in themselves get an error frame, and the connection goes
// on.
func TestBadPayloads(t *testing.T) {
	d := start(t, &fake{})
	head := str16("t") + u32(0xffffffff)
	for name, bad := range map[string]struct {
		op            byte
		payload, want string
	}{
		"an unknown opcode":           {0x00, "", "unknown opcode 0x00"},
		"a response":                  {0x81, placed(1), "unknown opcode 0x81"},
		"no topic":                    {produce, "", "ends within topic_len"},
		"half a topic":                {produce, "\x00\x05abc", "ends within topic"},
		"a topic of 60,000 bytes":     {produce, str16(strings.Repeat("t", 60_000)), "a topic has at most 249 bytes, got 60000"},
		"nothing after the topic":     {produce, str16("t"), "ends within producer_id"},
		"a producer id of -2 bytes":   {produce, str16("t") + u32(0xfffffffe), "producer_id (record 0) must be -1 or more, got -2"},
		"half a producer id":          {produce, str16("t") + u32(5) + "abc", "ends within producer_id"},
		"a producer id of 2 GiB":      {produce, str16("t") + u32(0x7fffffff), "ends within producer_id"},
		"no count":                    {produce, head, "ends within count"},
		"a count of 4 billion":        {produce, head + u32(0xffffffff), "4294967295 records do not fit into the 0 bytes after count"},
		"more than there are":         {produce, head + u32(2) + val("x").payload(), "do not fit"},
		"more than there may be":      {produce, records("t", make([]record, 1001)...), "at most 1000 records, got 1001"},
		"a key of -2 bytes":           {produce, head + u32(1) + u32(0xfffffffe) + strings.Repeat("x", 16), "key_len (record 0) must be -1 or more, got -2"},
		"a key beyond the end":        {produce, head + u32(1) + u32(100) + strings.Repeat("x", 16), "ends within key_len (record 0)"},
		"a value beyond the end":      {produce, head + u32(1) + u32(0xffffffff) + u32(0xffffffff) + strings.Repeat("x", 16), "ends within value_len (record 0)"},
		"the second record cut short": {produce, head + u32(2) + val("xxxxxxxxxxxxxxxxxxxx").payload() + u32(0xffffffff), "(record 1)"},
		"partition -2":                {produce, records("t", record{noKey: true, partition: -2, sequence: none}), "records[0].partition must be -1 or more, got -2"},
		"bytes after the last record": {produce, records("t", val("x")) + "x", "1 bytes follow the last record"},
		"a read cut short":            {consume, str16("t") + u32(0), "ends within partition, offset, max_records and max_bytes"},
		"a read with more":            {consume, reading("t", 0) + "x", "bytes follow max_bytes"},
		"a read of a long topic":      {consume, str16(strings.Repeat("t", 250)), "a topic has at most 249 bytes, got 250"},
	} {
		for _, compress := range []uint32{0, 1} {
			t.Run(name, func(t *testing.T) {
				c := d.join(t, "", compress)
				got := c.call(bad.op, bad.payload)
				require.Equal(t, byte(0xff), got.op)
				require.Contains(t, got.payload, bad.want)
				c.alive()
			})
		}
	}
	require.Empty(t, d.sizes(), "nothing was written")
}

// A frame whose length cannot be right ends the connection.
func TestBadLengths(t *testing.T) {
	d := start(t, &fake{})
	for name, bad := range map[string]struct {
		send string
		want frame
	}{
		"0":         {u32(0), frame{0, 0xff, "a frame has at least 5 bytes after its length, got 0"}},
		"4":         {u32(4), frame{0, 0xff, "a frame has at least 5 bytes after its length, got 4"}},
		"too large": {u32(1<<20+6) + u32(7) + "\x01", frame{7, 0xff, "the payload is larger than the limit of 1048576 bytes"}},
		"4 GiB":     {u32(0xffffffff) + u32(7) + "\x01", frame{7, 0xff, "the payload is larger than the limit of 1048576 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := d.join(t, "", 0)
			c.send([]byte(bad.send + strings.Repeat("x", 10_000)))
			require.Equal(t, bad.want, c.next())
			c.over()
		})
	}
	t.Run("the largest", func(t *testing.T) {
		c := d.join(t, "", 0)
		value := strings.Repeat("x", 1<<20-len(records("t", val(""))))
		require.Equal(t, placed(0), c.call(produce, records("t", val(value))).payload)
	})
	t.Run("half a frame", func(t *testing.T) {
		c := d.join(t, "", 0)
		c.send(frame{1, produce, records("half", val("x"))}.bytes(false)[:20])
		require.NoError(t, c.conn.(*net.TCPConn).CloseWrite())
		c.over()
		require.Empty(t, d.written("half"))
	})
}

func TestGzip(t *testing.T) {
	d := start(t, &fake{})
	c := d.join(t, "", 1)
	c.alive()
	value := strings.Repeat("abc", 100_000)
	require.Equal(t, placed(0), c.call(produce, records("t", val(value))).payload)
	got := c.call(consume, reading("t", 0))
	require.Equal(t, byte(0x82), got.op)
	require.True(t, strings.HasSuffix(got.payload, value))

	raw := func(op byte, payload []byte) frame {
		c.last++
		b := frame{c.last, op, string(payload)}.bytes(false)
		c.send(b)
		got := c.next()
		require.Equal(t, c.last, got.id)
		return got
	}
	t.Run("an empty payload that is not compressed", func(t *testing.T) {
		require.Equal(t, byte(0x83), raw(ping, nil).op)
		require.Contains(t, raw(produce, nil).payload, "ends within topic_len")
	})
	t.Run("no gzip", func(t *testing.T) {
		require.Equal(t, "the payload is no sound gzip stream", raw(produce, []byte(records("t", val("x")))).payload)
	})
	t.Run("cut short", func(t *testing.T) {
		whole := zip([]byte(records("t", val("x"))))
		for n := range whole {
			require.Equal(t, byte(0xff), raw(produce, whole[:n]).op, n)
		}
	})
	t.Run("a wrong checksum", func(t *testing.T) {
		bad := zip([]byte(records("t", val("x"))))
		bad[len(bad)-5]++
		require.Equal(t, "the payload is no sound gzip stream", raw(produce, bad).payload)
	})
	t.Run("garbage behind it", func(t *testing.T) {
		require.Equal(t, "the payload is no sound gzip stream", raw(produce, append(zip([]byte(records("t", val("x")))), "garbage"...)).payload)
	})
	t.Run("two streams are one payload", func(t *testing.T) {
		payload := []byte(records("two", val("x")))
		require.Equal(t, placed(0), raw(produce, append(zip(payload[:7]), zip(payload[7:])...)).payload)
	})
	t.Run("a bomb", func(t *testing.T) {
		bomb := zip([]byte(records("t", val(strings.Repeat("\x00", 16<<20)))))
		require.Less(t, len(bomb), 1<<17)
		require.Equal(t, "the payload inflates to more than the limit of 1048576 bytes", raw(produce, bomb).payload)
	})
	c.alive()
}

// What claims to be large and does not come holds no memory that others need.
func TestClaimsTakeNoMemory(t *testing.T) {
	d := start(t, &fake{}, func(_ *binproto.Config, deps *binproto.Deps) { deps.Requests = semaphore.NewWeighted(1 << 20) })
	for range 50 {
		c := d.join(t, "", 0)
		c.send([]byte(u32(1<<20) + u32(1) + "\x01" + str16("t") + u32(0xffffffff)))
	}
	c := d.join(t, "", 0)
	require.Equal(t, placed(0), c.call(produce, records("t", val("x"))).payload)
}

// Requests that take all the memory there is are refused after a while, and the
// connection goes on.
func TestBudget(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	d := start(t, &fake{}, observed(s), func(c *binproto.Config, deps *binproto.Deps) {
		deps.Requests = semaphore.NewWeighted(600 << 10)
		c.BudgetTimeout = 50 * time.Millisecond
	})
	held := d.join(t, "", 0)
	held.send(frame{1, produce, records("t", val(strings.Repeat("x", 1<<19)))}.bytes(false)[:400<<10])
	// Before it has come so far another could keep it waiting.
	s.comesTo(512<<10, "budget_bytes{budget=requests}")
	c := d.join(t, "", 0)
	large := records("t", val(strings.Repeat("y", 200<<10)))
	got := c.call(produce, large)
	require.Equal(t, frame{got.id, 0xff, "too many bytes of requests are under way (retry after 1s)"}, got)
	require.Equal(t, byte(0x81), c.call(produce, records("t", val("small"))).op)
	held.conn.Close()
	require.Eventually(t, func() bool { return c.call(produce, large).op == 0x81 }, eventually, tick)
}

// An answer takes what it has of the budget, not what its request said.
func TestBudgetOfAnswers(t *testing.T) {
	d := start(t, &fake{}, func(c *binproto.Config, deps *binproto.Deps) {
		deps.Answers = semaphore.NewWeighted(700 << 10)
		c.BudgetTimeout = 50 * time.Millisecond
	})
	c := d.join(t, "", 0)
	little := func(offset uint64) string { return str16("t") + u32(0) + u64(offset) + u32(1) + u32(1) }
	for range 2 {
		require.Equal(t, byte(0x81), c.call(produce, records("t", val(strings.Repeat("x", 300<<10)))).op)
	}
	require.Equal(t, byte(0x82), c.call(consume, little(1)).op)
	got := c.call(consume, little(0))
	require.Equal(t, frame{got.id, 0xff, "too many bytes of requests are under way (retry after 1s)"}, got)
	require.Equal(t, byte(0x82), c.call(consume, little(1)).op)
}

// An answer that is larger than the budget is made when there is no other.
func TestAnswerLargerThanTheBudget(t *testing.T) {
	d := start(t, &fake{}, func(c *binproto.Config, deps *binproto.Deps) {
		deps.Answers = semaphore.NewWeighted(100 << 10)
		c.BudgetBytes = 100 << 10
	})
	c := d.join(t, "", 0)
	require.Equal(t, byte(0x81), c.call(produce, records("t", val(strings.Repeat("x", 300<<10)))).op)
	for range 2 {
		require.Equal(t, byte(0x82), c.call(consume, reading("t", 0)).op)
	}
}

// Who stops in the middle, of a frame or of reading an answer, goes when others
// need the memory that he holds.
func TestStalledClientsMakeRoom(t *testing.T) {
	t.Run("for requests", func(t *testing.T) {
		s := series{t, prometheus.NewRegistry()}
		d := start(t, &fake{}, observed(s), func(c *binproto.Config, deps *binproto.Deps) {
			deps.Requests = semaphore.NewWeighted(600 << 10)
			c.StallGrace = 10 * time.Millisecond
			c.BudgetTimeout = eventually
		})
		idle, c := d.join(t, "", 0), d.join(t, "", 0)
		for range 3 {
			held := d.join(t, "", 0)
			held.send(frame{1, produce, records("t", val(strings.Repeat("x", 1<<19)))}.bytes(false)[:400<<10])
			// It has to go once it has come so far that it holds memory. Until then it could be
			// the other who has stopped, on a machine that is slow enough.
			s.comesTo(512<<10, "budget_bytes{budget=requests}")
			require.Equal(t, byte(0x81), c.call(produce, records("t", val(strings.Repeat("y", 200<<10)))).op)
			held.over()
			s.comesTo(0, "budget_bytes{budget=requests}")
		}
		idle.alive()
	})
	t.Run("for answers", func(t *testing.T) {
		s := series{t, prometheus.NewRegistry()}
		d := start(t, &fake{}, observed(s), func(c *binproto.Config, deps *binproto.Deps) {
			deps.Answers = semaphore.NewWeighted(20 << 20)
			c.StallGrace = 10 * time.Millisecond
			c.BudgetTimeout = eventually
		})
		c := d.join(t, "", 0)
		for range 8 {
			require.Equal(t, byte(0x81), c.call(produce, records("t", val(strings.Repeat("x", 1000_000)))).op)
		}
		slow := d.join(t, "", 0)
		require.NoError(t, slow.conn.(*net.TCPConn).SetReadBuffer(4<<10))
		most := str16("t") + u32(0) + u64(0) + u32(100) + u32(8<<20)
		for range 3 {
			slow.ask(consume, most)
		}
		// Whoever reads before slow has its answer could be the one who has stopped.
		require.Eventually(t, func() bool { return s.all()["budget_bytes{budget=answers}"] > 0 }, eventually, tick)
		got := c.call(consume, most)
		require.Equal(t, byte(0x82), got.op, got.payload)
		require.Contains(t, d.log.String(), "a client that had stopped was cut off")
	})
}

func TestStalledFrame(t *testing.T) {
	d := start(t, &fake{}, func(c *binproto.Config, _ *binproto.Deps) { c.StallTimeout = 50 * time.Millisecond })
	for name, part := range map[string]string{
		"in the head":    "\x00\x00\x00",
		"in the topic":   u32(100) + u32(1) + "\x01\x00\x05or",
		"in the records": u32(100) + u32(1) + "\x01" + str16("orders") + u32(0xffffffff),
		"to be ignored":  u32(100) + u32(1) + "\x03x",
	} {
		t.Run(name, func(t *testing.T) {
			c := d.join(t, "", 0)
			c.send([]byte(part))
			c.over()
		})
	}
}

func TestHalfClose(t *testing.T) {
	d := start(t, &fake{})
	c := d.join(t, "", 0)
	c.ask(produce, records("t", val("x")))
	c.ask(ping, "")
	require.NoError(t, c.conn.(*net.TCPConn).CloseWrite())
	c.next()
	c.next()
	_, err := c.conn.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}
