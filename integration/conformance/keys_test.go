package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// key makes a key that may write what stands under a prefix, and returns the
// server as its holder sees it and what revokes it.
func (s server) key(t *testing.T, prefix string, produceBytesPerSec int) (server, func()) {
	t.Helper()
	body := s.call(t, "POST", "/admin/keys", fmt.Sprintf(
		`{"name":"conformance","acls":[{"action":"write","topic_prefix":%q}],"produce_bytes_per_sec":%d}`, prefix, produceBytesPerSec), 201)
	var made struct {
		Key struct {
			ID string `json:"key_id"`
		} `json:"key"`
		Secret string `json:"secret"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	holder := s
	holder.token = made.Secret
	return holder, func() { s.call(t, "DELETE", "/admin/keys/"+made.Key.ID, "", 204) }
}

func TestKeysOnOpenConnections(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		if s.token == "" {
			t.Skip("the server asks for no keys")
		}
		for name, features := range map[string]uint32{"plain": 0, "gzip": 1} {
			t.Run(name, func(t *testing.T) {
				topic, other := s.topic(t, 1), s.topic(t, 1)
				holder, revoke := s.key(t, topic, 1<<20)
				c := holder.join(t, features)
				c.produce(topic, "", rec(nil, "x"))
				records, _, _ := c.consume(topic, 0, 0, 1, 1)
				require.Len(t, records, 1, "write covers read")
				refused := c.refused(opProduce, produce(other, "", rec(nil, "x")))
				require.Equal(t, strings.ReplaceAll(refused, other, "conformance-none"),
					c.refused(opProduce, produce("conformance-none", "", rec(nil, "x"))), "nobody learns which topics there are")
				c.refused(opConsume, consume(other, 0, 0, 1, 1))

				revoke()
				c.ask(opProduce, produce(topic, "", rec(nil, "y")))
				require.Equal(t, byte(opError), c.next().op)
				c.over()
				again := holder.dial(t)
				again.hello("ES01", 0, holder.token)
				status, _, _ := again.reply()
				require.Equal(t, byte(2), status)
				_, _, high := s.join(t, 0).consume(topic, 0, 0, 1, 1)
				require.Equal(t, uint64(1), high)
			})
		}
	})
}

func TestQuota(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		if s.token == "" {
			t.Skip("the server asks for no keys")
		}
		topic := s.topic(t, 1)
		holder, _ := s.key(t, topic, 2000)
		c := holder.join(t, 0)
		c.refused(opProduce, produce(topic, "", rec(nil, strings.Repeat("x", 2001))))
		took := func(size int) bool {
			c.ask(opProduce, produce(topic, "", rec(nil, strings.Repeat("x", size))))
			a := c.next()
			if a.op != opProduce|0x80 {
				require.Equal(t, byte(opError), a.op)
			}
			return a.op != opError
		}
		began := time.Now()
		require.True(t, took(1900))
		for next := time.Now(); took(1900); next = time.Now() {
			// On a busy machine there may be enough again.
			require.Greater(t, time.Since(began), 800*time.Millisecond, "two seconds' worth at once")
			began = next
		}
		require.Eventually(t, func() bool { return took(1000) }, patience, 50*time.Millisecond)
	})
}
