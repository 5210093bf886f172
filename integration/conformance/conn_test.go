package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long an answer may take.
const patience = time.Minute

// conn is a connection of the binary protocol.
type conn struct {
	t    *testing.T
	net  net.Conn
	gzip bool
	last uint32
}

func (s server) dial(t *testing.T) *conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.binary)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &conn{t: t, net: c}
}

// join dials and shakes hands.
func (s server) join(t *testing.T, features uint32) *conn {
	t.Helper()
	c := s.dial(t)
	c.hello("ES01", features, s.token)
	status, accepted, _ := c.reply()
	require.Zero(t, status)
	require.Equal(t, features, accepted)
	c.gzip = features&1 != 0
	return c
}

func (c *conn) hello(magic string, features uint32, token string) {
	c.t.Helper()
	b := be32([]byte(magic), features)
	c.write(append(be32(b, uint32(len(token))), token...))
}

func (c *conn) reply() (status byte, features uint32, message string) {
	c.t.Helper()
	head := c.read(13)
	require.Equal(c.t, "ES01", string(head[:4]))
	message = string(c.read(int(binary.BigEndian.Uint32(head[9:]))))
	return head[4], binary.BigEndian.Uint32(head[5:]), message
}

func (c *conn) write(b []byte) {
	c.t.Helper()
	_, err := c.net.Write(b)
	require.NoError(c.t, err)
}

func (c *conn) read(n int) []byte {
	c.t.Helper()
	require.NoError(c.t, c.net.SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, n)
	_, err := io.ReadFull(c.net, b)
	require.NoError(c.t, err)
	return b
}

// over checks that the server closes the connection.
func (c *conn) over() {
	c.t.Helper()
	require.NoError(c.t, c.net.SetReadDeadline(time.Now().Add(patience)))
	_, err := c.net.Read(make([]byte, 1))
	require.Error(c.t, err)
	timeout, ok := err.(net.Error)
	require.False(c.t, ok && timeout.Timeout(), "the connection stays open")
}

// The opcodes.
const (
	opProduce, opConsume, opPing = 0x01, 0x02, 0x03
	opError                      = 0xff
)

// ask sends a request and returns its id.
func (c *conn) ask(op byte, payload []byte) uint32 {
	c.t.Helper()
	b := c.frame(op, payload)
	c.write(b)
	return c.last
}

// frame is the next request, to be sent.
func (c *conn) frame(op byte, payload []byte) []byte {
	c.t.Helper()
	c.last += 7
	if c.gzip {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(payload)
		require.NoError(c.t, err)
		require.NoError(c.t, w.Close())
		payload = out.Bytes()
	}
	b := be32(nil, uint32(5+len(payload)))
	b = append(be32(b, c.last), op)
	return append(b, payload...)
}

type answer struct {
	id      uint32
	op      byte
	payload []byte
}

func (c *conn) next() answer {
	c.t.Helper()
	head := c.read(9)
	a := answer{binary.BigEndian.Uint32(head[4:]), head[8], c.read(int(binary.BigEndian.Uint32(head)) - 5)}
	if c.gzip {
		r, err := gzip.NewReader(bytes.NewReader(a.payload))
		require.NoError(c.t, err)
		a.payload, err = io.ReadAll(r)
		require.NoError(c.t, err)
	}
	return a
}

// call sends a request and returns the payload of its answer, which has to be of
// an opcode.
func (c *conn) call(op byte, payload []byte, want byte) []byte {
	c.t.Helper()
	id := c.ask(op, payload)
	a := c.next()
	require.Equal(c.t, id, a.id)
	require.Equal(c.t, want, a.op, "%s", a.payload)
	return a.payload
}

// refused sends a request that gets an error frame, after which the connection
// goes on.
func (c *conn) refused(op byte, payload []byte) string {
	c.t.Helper()
	message := string(c.call(op, payload, opError))
	require.NotEmpty(c.t, message)
	c.call(opPing, nil, opPing|0x80)
	return message
}

func be32(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }
func be64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// none stands for no sequence.
const none = math.MinInt64

// record is a record to write.
type record struct {
	key       []byte
	value     string
	partition int32
	sequence  int64
}

func rec(key []byte, value string) record { return record{key, value, -1, none} }

// produce is the payload of a produce; an empty producer is none.
func produce(topic, producer string, records ...record) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
	b = append(b, topic...)
	if producer == "" {
		b = be32(b, math.MaxUint32)
	} else {
		b = append(be32(b, uint32(len(producer))), producer...)
	}
	b = be32(b, uint32(len(records)))
	for _, r := range records {
		if r.key == nil {
			b = be32(b, math.MaxUint32)
		} else {
			b = append(be32(b, uint32(len(r.key))), r.key...)
		}
		b = append(be32(b, uint32(len(r.value))), r.value...)
		b = be64(be32(b, uint32(r.partition)), uint64(r.sequence))
	}
	return b
}

// placed is where a record stands.
type placed struct {
	partition uint32
	offset    uint64
	duplicate byte
}

func (c *conn) produce(topic, producer string, records ...record) []placed {
	c.t.Helper()
	all := placedIn(c.t, c.call(opProduce, produce(topic, producer, records...), opProduce|0x80))
	require.Len(c.t, all, len(records))
	return all
}

func consume(topic string, partition uint32, offset uint64, maxRecords, maxBytes uint32) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
	b = be32(append(b, topic...), partition)
	return be32(be32(be64(b, offset), maxRecords), maxBytes)
}

// stored is a record as it is read, but for its time.
type stored struct {
	partition uint32
	offset    uint64
	key       []byte
	value     string
}

func (c *conn) consume(topic string, partition uint32, offset uint64, maxRecords, maxBytes uint32) (records []stored, next, high uint64) {
	c.t.Helper()
	b := c.call(opConsume, consume(topic, partition, offset, maxRecords, maxBytes), opConsume|0x80)
	take := func(n uint32) []byte {
		require.GreaterOrEqual(c.t, len(b), int(n))
		taken := b[:n]
		b = b[n:]
		return taken
	}
	u32 := func() uint32 { return binary.BigEndian.Uint32(take(4)) }
	u64 := func() uint64 { return binary.BigEndian.Uint64(take(8)) }
	next, high = u64(), u64()
	for range u32() {
		r := stored{partition: u32(), offset: u64()}
		now := time.Now()
		require.WithinDuration(c.t, now, time.UnixMilli(int64(u64())), time.Hour)
		if n := u32(); n != math.MaxUint32 {
			r.key = append([]byte{}, take(n)...)
		}
		r.value = string(take(u32()))
		records = append(records, r)
	}
	require.Empty(c.t, b)
	return records, next, high
}
