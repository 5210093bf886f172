package conformance

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestHandshake(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		for _, features := range []uint32{0, 1} {
			s.join(t, features).call(opPing, nil, opPing|0x80)
		}
		t.Run("features that nobody knows are not accepted", func(t *testing.T) {
			c := s.dial(t)
			c.hello("ES01", 0x80000001, s.token)
			status, features, _ := c.reply()
			require.Zero(t, status)
			require.Equal(t, uint32(1), features)
		})
		t.Run("bad magic", func(t *testing.T) {
			c := s.dial(t)
			c.hello("ES99", 0, s.token)
			status, _, message := c.reply()
			require.Equal(t, byte(1), status)
			require.NotEmpty(t, message)
			c.over()
		})
		t.Run("a token that is too long", func(t *testing.T) {
			c := s.dial(t)
			c.hello("ES01", 0, strings.Repeat("x", 1025))
			status, _, _ := c.reply()
			require.Equal(t, byte(2), status)
			c.over()
		})
		if s.token == "" {
			return
		}
		for want, token := range map[byte]string{2: "esk_wrong", 3: ""} {
			c := s.dial(t)
			c.hello("ES01", 0, token)
			status, _, _ := c.reply()
			require.Equal(t, want, status)
			c.over()
		}
	})
}

// each runs a test on a connection without and with compressed payloads.
func each(t *testing.T, s server, test func(t *testing.T, c *conn)) {
	for name, features := range map[string]uint32{"plain": 0, "gzip": 1} {
		t.Run(name, func(t *testing.T) { test(t, s.join(t, features)) })
	}
}

func TestProduceAndConsume(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		each(t, s, func(t *testing.T, c *conn) {
			topic := s.topic(t, 2)
			raw := "\x00\xff raw \x80"
			require.Equal(t, []placed{{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}}, c.produce(topic, "",
				rec([]byte("user-1"), "checkout"), rec([]byte("user-2"), raw),
				record{nil, "", 1, none}, record{[]byte{}, "x", 0, none}), "the key picks the partition, unless the record names one")
			records, next, high := c.consume(topic, 1, 0, 100, 1<<20)
			require.Equal(t, []stored{{1, 0, []byte("user-2"), raw}, {1, 1, nil, ""}}, records)
			require.Equal(t, []uint64{2, 2}, []uint64{next, high})
			records, next, high = c.consume(topic, 0, 1, 100, 1<<20)
			require.Equal(t, []stored{{0, 1, []byte{}, "x"}}, records)
			require.Equal(t, []uint64{2, 2}, []uint64{next, high})

			records, next, _ = c.consume(topic, 1, 0, 1, 1<<20)
			require.Len(t, records, 1)
			require.Equal(t, uint64(1), next, "no more than max_records")
			records, next, _ = c.consume(topic, 1, 0, 100, 1)
			require.Len(t, records, 1, "the first record comes whole")
			require.Equal(t, uint64(1), next)
			records, next, high = c.consume(topic, 0, 50, 100, 1<<20)
			require.Empty(t, records)
			require.Equal(t, []uint64{50, 2}, []uint64{next, high}, "past the end")

			// Without key and partition they are spread.
			all := c.produce(topic, "", rec(nil, "a"), rec(nil, "b"), rec(nil, "c"), rec(nil, "d"))
			spread := map[uint32]int{}
			for _, p := range all {
				spread[p.partition]++
			}
			require.Equal(t, map[uint32]int{0: 2, 1: 2}, spread)

			// HTTP sees the same.
			body := s.call(t, "GET", "/topics/"+topic+"/consume?partition=0&offset=0&max_records=1", "", 200)
			require.Contains(t, body, `"key":"user-1","value":"checkout"`)
			s.call(t, "POST", "/topics/"+topic+"/produce", `{"records":[{"key":"h","value":"from HTTP","partition":0}]}`, 200)
			records, _, _ = c.consume(topic, 0, 4, 100, 1<<20)
			require.Equal(t, []stored{{0, 4, []byte("h"), "from HTTP"}}, records)
		})
	})
}

func TestIdempotentProducer(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		each(t, s, func(t *testing.T, c *conn) {
			topic := s.topic(t, 1)
			producer := "producer-" + topic
			seq := func(n int64) record { return record{nil, fmt.Sprint(n), 0, n} }
			require.Equal(t, []placed{{0, 0, 0}, {0, 1, 0}}, c.produce(topic, producer, seq(42), seq(43)))
			require.Equal(t, []placed{{0, 0, 1}, {0, 1, 1}, {0, 2, 0}}, c.produce(topic, producer, seq(42), seq(43), seq(44)))
			require.Contains(t, c.refused(opProduce, produce(topic, producer, seq(46))), "sequence gap")
			require.Contains(t, c.refused(opProduce, produce(topic, producer, seq(1))), "sequence too low")
			// Over HTTP the state is the same.
			body := s.call(t, "POST", "/topics/"+topic+"/produce",
				fmt.Sprintf(`{"producer_id":%q,"records":[{"value":"44","partition":0,"sequence":44}]}`, producer), 200)
			require.Equal(t, `{"results":[{"partition":0,"offset":2,"duplicate":true}]}`, strings.TrimSpace(body))
		})
	})
}

func TestErrors(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		each(t, s, func(t *testing.T, c *conn) {
			topic := s.topic(t, 1)
			good := produce(topic, "", rec(nil, "x"))
			head := produce(topic, "")[:2+len(topic)+4]
			for name, bad := range map[string]struct {
				op      byte
				payload []byte
			}{
				"an unknown opcode":           {0x7f, nil},
				"an opcode of an answer":      {0x81, good},
				"no payload":                  {opProduce, nil},
				"an unknown topic":            {opProduce, produce("conformance-none", "", rec(nil, "x"))},
				"a topic of 60,000 bytes":     {opProduce, produce(strings.Repeat("t", 60_000), "", rec(nil, "x"))},
				"no records":                  {opProduce, produce(topic, "")},
				"an unknown partition":        {opProduce, produce(topic, "", record{nil, "x", 1, none})},
				"partition -2":                {opProduce, produce(topic, "", record{nil, "x", -2, none})},
				"one bad record of two":       {opProduce, produce(topic, "", rec(nil, "x"), record{nil, "x", 9, none})},
				"a sequence without producer": {opProduce, produce(topic, "", record{nil, "x", 0, 1})},
				"4 billion records":           {opProduce, be32(append([]byte{}, head...), math.MaxUint32)},
				"a key of -2 bytes":           {opProduce, append(be32(be32(append([]byte{}, head...), 1), math.MaxUint32-1), make([]byte, 16)...)},
				"a record cut short":          {opProduce, good[:len(good)-1]},
				"a byte too many":             {opProduce, append(append([]byte{}, good...), 0)},
				"a read of an unknown topic":  {opConsume, consume("conformance-none", 0, 0, 1, 1)},
				"a read of partition 1":       {opConsume, consume(topic, 1, 0, 1, 1)},
				"a read of partition 2³²-1":   {opConsume, consume(topic, math.MaxUint32, 0, 1, 1)},
				"a read of no records":        {opConsume, consume(topic, 0, 0, 0, 1)},
				"a read of no bytes":          {opConsume, consume(topic, 0, 0, 1, 0)},
				"a read cut short":            {opConsume, consume(topic, 0, 0, 1, 1)[:10]},
			} {
				t.Run(name, func(t *testing.T) {
					c.t = t
					c.refused(bad.op, bad.payload)
				})
			}
			c.t = t
			records, _, high := c.consume(topic, 0, 0, 1, 1)
			require.Empty(t, records)
			require.Zero(t, high, "nothing was written")
		})
		t.Run("a frame of 4 GiB", func(t *testing.T) {
			c := s.join(t, 0)
			c.write([]byte("\xff\xff\xff\xff\x00\x00\x00\x01\x01"))
			c.next()
			c.over()
		})
		t.Run("a frame of 4 bytes", func(t *testing.T) {
			c := s.join(t, 0)
			c.write([]byte("\x00\x00\x00\x04\x00\x00\x00\x01"))
			c.next()
			c.over()
		})
	})
}

// Many requests may be under way, and produces to one topic keep their order.
func TestPipelining(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		each(t, s, func(t *testing.T, c *conn) {
			const n = 100
			topic := s.topic(t, 1)
			sent := make(chan map[uint32]int, 1)
			go func() {
				ids := map[uint32]int{}
				for i := range n {
					ids[c.ask(opProduce, produce(topic, "", rec(nil, fmt.Sprint(i))))] = i
				}
				sent <- ids
			}()
			offsets := map[uint32]uint64{}
			for range n {
				a := c.next()
				require.Equal(t, byte(opProduce|0x80), a.op, "%s", a.payload)
				offsets[a.id] = uint64(a.payload[15])
			}
			for id, i := range <-sent {
				require.Equal(t, uint64(i), offsets[id])
			}
		})
	})
}
