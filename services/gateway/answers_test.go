package gateway_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway"
)

// largeRecord does not fit into the buffers of a connection.
const largeRecord = 8<<20 - 100

// room is for some answers of largeRecord bytes at once, and no more.
func room(answers int64) setting {
	return func(c *gateway.Config) { c.MaxInflightBodyBytes = c.MaxRequestBodyBytes + 1 + (answers-1)*(8<<20) }
}

// deaf sends a request and never reads its answer.
func (s *server) deaf(tb testing.TB, path string) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", s.service.HTTPAddr().String())
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close() })
	require.NoError(tb, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(tb, err)
	return conn
}

func withLargeRecord(tb testing.TB, answers int64) *server {
	tb.Helper()
	s := start(tb, room(answers))
	s.steps(tb, create("t", "2"),
		produce(`{"records":[{"value":"`+strings.Repeat("x", largeRecord)+`","partition":0}]}`, 200, `{"results":[{"partition":0,"offset":0}]}`))
	return s
}

// Clients that ask and do not read do not take more memory than there is for
// answers; others hear that there is none.
func TestAnswersThatNobodyTakes(t *testing.T) {
	s := withLargeRecord(t, 2)
	const path = "/topics/t/consume?partition=0&offset=0&max_bytes=8388608"
	one, two := s.deaf(t, path), s.deaf(t, path)
	// A read takes its room before it asks storage. Nobody is in their way until they have it.
	require.Eventually(t, func() bool { return len(s.Storage["a"].Fetches()) == 2 }, eventually, tick)
	busy := s.do(t, "GET", path, "")
	require.Equal(t, answerOf(503, `{"error":"too many bytes of answers are under way"}`), bare(busy))
	require.Equal(t, "1", busy.header.Get("Retry-After"))
	// What is small finds room.
	s.steps(t, step{"GET", "/topics", "", 200, `{"topics":["t"]}`}, consume("partition=1&offset=0&max_bytes=1000", 200, page(0, 0)))

	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	require.Eventually(t, func() bool { return s.do(t, "GET", path, "").status == 200 }, eventually, tick)
}

// Surveys, whose size nobody knows before, are put together a few at a time.
func TestSurveysTakeTurns(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.LeaderWait = eventually })
	s.steps(t, create("t", "1"))
	s.SetDown("a", true)
	const turns = 8
	var waiting []<-chan answer
	for range turns {
		waiting = append(waiting, s.later(s.request(t, "GET", "/topics/t", "")))
	}
	require.Eventually(t, func() bool {
		return s.do(t, "GET", "/raft", "").body == `{"error":"too many surveys of the server are under way"}`
	}, eventually, tick)
	s.steps(t, step{"GET", "/topics", "", 200, `{"topics":["t"]}`})

	s.SetDown("a", false)
	for _, got := range waiting {
		require.Equal(t, 200, (<-got).status)
	}
	require.Equal(t, 200, s.do(t, "GET", "/metrics", "").status)
}

// Who waits for records takes no room while waiting, however much may come.
func TestWaitingTakesNoRoom(t *testing.T) {
	s := withLargeRecord(t, 1)
	const waiting = 5
	s.steps(t, create("u", strconv.Itoa(2*waiting)))
	// Each waits at a partition of its own, so that they need not share the room later.
	var answers []<-chan answer
	for i := range waiting {
		commit := fmt.Sprintf(`{"topic":"u","partition":%d,"offset":0}`, 2*i+1)
		s.steps(t, step{"POST", "/groups/g/commit", commit, 204, ""})
		answers = append(answers,
			s.later(s.request(t, "GET", fmt.Sprintf("/topics/u/consume?partition=%d&offset=0&max_bytes=8388608&max_wait_ms=30000", 2*i), "")),
			s.later(s.request(t, "GET", fmt.Sprintf("/groups/g/consume?topic=u&partition=%d&max_bytes=8388608&max_wait_ms=30000", 2*i+1), "")))
	}
	require.Eventually(t, func() bool {
		n := 0
		for _, node := range s.Storage {
			for _, f := range node.Fetches() {
				if f.GetMaxWaitMs() == 30000 {
					n++
				}
			}
		}
		return n == 2*waiting
	}, eventually, tick)
	require.Equal(t, 200, s.do(t, "GET", "/topics/t/consume?partition=0&offset=0&max_bytes=8388608", "").status)

	for i, got := range answers {
		s.steps(t, step{"POST", "/topics/u/produce", fmt.Sprintf(`{"records":[{"value":"x","partition":%d}]}`, i), 200,
			fmt.Sprintf(`{"results":[{"partition":%d,"offset":0}]}`, i)})
		require.Equal(t, answerOf(200, page(1, 1, record(i, 0, "null", "x"))), bare(<-got))
	}
}

// An answer that is larger than all room there is, since its text is, comes when
// nobody else has any.
func TestAnAnswerLargerThanTheRoom(t *testing.T) {
	s := start(t, func(c *gateway.Config) {
		c.MaxRequestBodyBytes, c.MaxInflightBodyBytes, c.MaxFetchBytes = 1<<20, 1<<20+1, 1<<20
	})
	s.steps(t, create("t", "1"))
	for range 2 {
		require.Equal(t, 200, s.do(t, "POST", "/topics/t/produce", `{"records":[{"value":"`+strings.Repeat(`\u0001`, 150_000)+`"}]}`).status)
	}
	got := s.do(t, "GET", "/topics/t/consume?partition=0&offset=0", "")
	require.Equal(t, 200, got.status)
	require.Greater(t, len(got.body), 1<<20)
}

// Connections beyond the limit wait until others have gone.
func TestConnectionsAreLimited(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.MaxConnections = 2 })
	open := func() net.Conn {
		conn, err := net.Dial("tcp", s.service.HTTPAddr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	one, two := open(), open()
	got := s.later(s.request(t, "GET", "/topics", ""))
	select {
	case a := <-got:
		require.Fail(t, "a third connection is served", "%+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, one.Close())
	require.Equal(t, answerOf(200, `{"topics":[]}`), bare(<-got))
	require.NoError(t, two.Close())
}
