package gateway_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
)

func TestWhatIsNotThere(t *testing.T) {
	s := start(t)
	s.steps(t,
		step{"GET", "/", "", 404, `{"error":"there is nothing at /"}`},
		step{"GET", "/nothing", "", 404, `{"error":"there is nothing at /nothing"}`},
		step{"GET", "/topics/", "", 404, `{"error":"there is nothing at /topics/"}`},
		step{"GET", "/topics/a/b", "", 404, `{"error":"there is nothing at /topics/a/b"}`},
		step{"POST", "/topics//produce", "{}", 404, `{"error":"there is nothing at /topics//produce"}`},
		step{"GET", "/topics/t:undo", "", 404, `{"error":"topic \"t:undo\" does not exist"}`},
		step{"GET", "/topics/a%2Fb", "", 404, `{"error":"topic \"a/b\" does not exist"}`},
		step{"PATCH", "/topics", "{}", 405, `{"error":"PATCH is not allowed here, only GET, POST"}`},
		step{"GET", "/topics/t/produce", "", 405, `{"error":"GET is not allowed here, only POST"}`},
		step{"OPTIONS", "/topics/t", "", 405, `{"error":"OPTIONS is not allowed here, only DELETE, GET"}`},
		step{"POST", "/healthz", "", 405, `{"error":"POST is not allowed here, only GET, HEAD"}`},
		step{"GET", "/readyz", "", 200, `{"status":"ready"}`},
	)
	require.Equal(t, "GET, POST", s.do(t, "DELETE", "/topics", "").header.Get("Allow"))
	head := s.do(t, "HEAD", "/healthz", "")
	require.Equal(t, 200, head.status)
	require.Empty(t, head.body)
}

// Whatever media type a body says it is, it is read as JSON, and headers that
// mean something to grpc-gateway mean nothing here.
func TestHeadersThatChangeNothing(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	for name, values := range map[string][]string{
		"Content-Type":               {"application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", "application/vnd.kafka.json.v2+json", ";;;", ""},
		"Accept":                     {"application/xml", "text/event-stream"},
		"X-HTTP-Method-Override":     {"DELETE", "GET"},
		"Grpc-Timeout":               {"1n", "x"},
		"TE":                         {"trailers"},
		"Grpc-Metadata-Anything":     {"x"},
		"Grpc-Metadata-Anything-Bin": {"not base64!"},
	} {
		for _, value := range values {
			req := s.request(t, "POST", "/topics/t/produce", `{"records":[{"value":"x"}]}`)
			req.Header.Set(name, value)
			got := s.send(t, req)
			require.Equal(t, 200, got.status, "%s: %s: %s", name, value, got.body)
			require.Contains(t, got.body, `{"results":[{"partition":0,"offset":`)
			require.Equal(t, "application/json", got.header.Get("Content-Type"))
			require.Empty(t, got.header.Values("Trailer"))
		}
	}
}

func TestHostMustNameThisMachine(t *testing.T) {
	host := func(s *server, host string) answer {
		req := s.request(t, "GET", "/healthz", "")
		req.Host = host
		return s.send(t, req)
	}
	s := start(t, func(c *gateway.Config) { c.AllowedHosts = []string{"Broker.Internal"} })
	for _, good := range []string{"localhost", "localhost:9000", "LOCALHOST:1", "app.localhost:9000", "127.0.0.1", "127.8.9.1:1", "[::1]:9000", "[::1]", "localhost.", "broker.internal:9000"} {
		require.Equal(t, 200, host(s, good).status, good)
	}
	for _, bad := range []string{"evil.example", "evil.example:9000", "localhost.evil.example", "10.0.0.1:9000", "127.0.0.1.evil.example", "evillocalhost", "0.0.0.0:9000"} {
		require.Equal(t, answerOf(403, `{"error":"the Host \"`+bad+`\" does not name this machine"}`), bare(host(s, bad)))
	}
	// Where other machines are let in, they come by address; a name still has to
	// be ours.
	s = start(t, func(c *gateway.Config) { c.AllowRemoteUnauthenticated = true })
	require.Equal(t, 200, host(s, "10.0.0.1:9000").status)
	require.Equal(t, 403, host(s, "evil.example").status)
	// With keys a page of another site has none.
	s = start(t, func(c *gateway.Config) { c.Authenticated = true })
	require.Equal(t, 200, host(s, "any.example").status)
}

func TestNoPageOfAnotherSiteMayChangeAnything(t *testing.T) {
	s := start(t)
	for _, header := range [][2]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		req := s.request(t, "POST", "/topics", `{"name":"t"}`)
		req.Header.Set(header[0], header[1])
		require.Equal(t, 403, s.send(t, req).status, header)
	}
	s.steps(t, step{"GET", "/topics", "", 200, `{"topics":[]}`})
	own := s.request(t, "POST", "/topics", `{"name":"t"}`)
	own.Header.Set("Origin", "http://"+own.URL.Host)
	require.Equal(t, 201, s.send(t, own).status)

	// Reading is left to the browser, which shows nothing without CORS headers.
	req := s.request(t, "GET", "/topics", "")
	req.Header.Set("Origin", "https://evil.example")
	got := s.send(t, req)
	require.Equal(t, 200, got.status)
	for name := range got.header {
		require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
	}
}

func TestCORS(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.CORSOrigins = []string{"https://ui.example", "http://localhost:3000"} })
	from := func(method, origin string) answer {
		req := s.request(t, method, "/topics", `{"name":"t"}`)
		req.Header.Set("Origin", origin)
		if method == "OPTIONS" {
			req.Header.Set("Access-Control-Request-Method", "POST")
			req.Header.Set("Access-Control-Request-Headers", "content-type")
		}
		return s.send(t, req)
	}
	preflight := from("OPTIONS", "https://ui.example")
	require.Equal(t, 204, preflight.status)
	require.Equal(t, "https://ui.example", preflight.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "GET, POST, PUT, DELETE", preflight.header.Get("Access-Control-Allow-Methods"))
	for _, header := range []string{"Content-Type", "Authorization", "X-Es-Key"} {
		require.Contains(t, preflight.header.Get("Access-Control-Allow-Headers"), header)
	}
	require.Equal(t, "Origin", preflight.header.Get("Vary"))

	require.Equal(t, 201, from("POST", "http://localhost:3000").status)
	failed := from("POST", "http://localhost:3000")
	require.Equal(t, 409, failed.status)
	require.Equal(t, "http://localhost:3000", failed.header.Get("Access-Control-Allow-Origin"), "failures can be read too")

	for _, origin := range []string{"https://evil.example", "https://ui.example.evil.example", "http://ui.example", "null"} {
		require.Equal(t, 405, from("OPTIONS", origin).status, origin)
		require.Equal(t, 403, from("POST", origin).status, origin)
		require.Empty(t, from("GET", origin).header.Get("Access-Control-Allow-Origin"), origin)
	}
}

// With keys a listed page asks first without one, as browsers do; others get no
// header, whatever the answer is.
func TestCORSWithKeys(t *testing.T) {
	cluster := clustertest.New(t, "a")
	cluster.Registry.Require(map[string]*registryv1.Principal{"esk_admin": {Id: "key_1", Admin: true}})
	s := startOn(t, cluster, func(c *gateway.Config) {
		c.Authenticated = true
		c.CORSOrigins = []string{"https://ui.example"}
	})
	from := func(method, origin, key string) answer {
		req := s.request(t, method, "/topics", "")
		req.Header.Set("Origin", origin)
		req.Header.Set("X-Es-Key", key)
		if method == "OPTIONS" {
			req.Header.Set("Access-Control-Request-Method", "GET")
			req.Header.Set("Access-Control-Request-Headers", "x-es-key")
		}
		return s.send(t, req)
	}
	require.Equal(t, 204, from("OPTIONS", "https://ui.example", "").status)
	for key, want := range map[string]int{"": 401, "esk_admin": 200} {
		got := from("GET", "https://ui.example", key)
		require.Equal(t, want, got.status)
		require.Equal(t, "https://ui.example", got.header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, got.header.Get("Access-Control-Allow-Credentials"), "keys are no cookies")
		for name := range from("GET", "https://evil.example", key).header {
			require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
		}
	}
}

func TestMetrics(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("orders", "2"),
		step{"POST", "/topics/orders/produce", `{"records":[{"key":"user-1","value":"checkout"},{"key":"user-2","value":"signup"}]}`, 200,
			`{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`},
		step{"GET", "/topics/orders/consume?partition=1&offset=0", "", 200,
			`{"records":[{"partition":1,"offset":0,"timestamp_ms":1763500000000,"key":"user-2","value":"signup"}],"next_offset":1,"high_watermark":1}`},
		step{"POST", "/groups/analytics/commit", `{"topic":"orders","partition":0,"offset":0}`, 204, ""},
		step{"POST", "/groups/%22odd%22%5C/commit", `{"topic":"orders","partition":1,"offset":7}`, 204, ""},
	)
	got := s.do(t, "GET", "/metrics", "")
	require.Equal(t, 200, got.status)
	require.True(t, strings.HasPrefix(got.header.Get("Content-Type"), "text/plain; version=0.0.4"), got.header.Get("Content-Type"))
	for _, line := range []string{
		`# TYPE es_partition_start_offset gauge`,
		`es_partition_start_offset{partition="0",topic="orders"} 0`,
		`es_partition_end_offset{partition="0",topic="orders"} 1`,
		`es_partition_size_bytes{partition="0",topic="orders"} 82`,
		`es_partition_segment_count{partition="1",topic="orders"} 1`,
		`# TYPE es_topic_records_produced_total counter`,
		`es_topic_records_produced_total{topic="orders"} 2`,
		`es_topic_bytes_produced_total{topic="orders"} 26`,
		`es_topic_records_consumed_total{topic="orders"} 1`,
		`es_topic_bytes_consumed_total{topic="orders"} 12`,
		`es_group_committed_offset{group="analytics",partition="0",topic="orders"} 0`,
		`es_group_lag{group="analytics",partition="0",topic="orders"} 1`,
		`es_group_lag{group="\"odd\"\\",partition="1",topic="orders"} 0`,
	} {
		require.Contains(t, got.body, line+"\n")
	}
	require.Contains(t, got.body, "go_goroutines ")

	// A partition that cannot be read has none, rather than zeros.
	s.Storage["a"].Refuse(0, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED})
	got = s.do(t, "GET", "/metrics", "")
	require.NotContains(t, got.body, `es_partition_end_offset{partition="0"`)
	require.NotContains(t, got.body, `es_group_lag{group="analytics"`)

	// A node that does not answer costs its own series.
	s.SetDown("a", true)
	got = s.do(t, "GET", "/metrics", "")
	require.Equal(t, 200, got.status)
	require.NotContains(t, got.body, `es_partition_end_offset{partition="0"`)
	require.Contains(t, got.body, `es_partition_end_offset{partition="1"`)
	require.NotContains(t, got.body, `es_group_lag{group="analytics"`)
}

func dial(t *testing.T, s *server) *grpc.ClientConn {
	conn, err := grpc.NewClient(s.service.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func TestGRPC(t *testing.T) {
	s := start(t)
	conn := dial(t, s)
	topics, log, groups := logv1.NewTopicServiceClient(conn), logv1.NewLogServiceClient(conn), logv1.NewGroupServiceClient(conn)
	_, err := topics.CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: "t"})
	require.NoError(t, err)
	_, err = topics.CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: "t"})
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	value := []byte("\xff\x00 bytes")
	produced, err := log.Produce(t.Context(), &logv1.ProduceRequest{Topic: "t", Records: []*logv1.ProduceRecord{{Key: []byte{}, Value: value}}})
	require.NoError(t, err)
	require.True(t, proto.Equal(&logv1.ProduceResponse{Results: []*logv1.ProduceResult{{}}}, produced))
	consumed, err := log.Consume(t.Context(), &logv1.ConsumeRequest{Topic: "t", Partition: proto.Int32(0), Offset: proto.Int64(0)})
	require.NoError(t, err)
	require.True(t, proto.Equal(&logv1.ConsumeResponse{
		Records: []*logv1.Record{{TimestampMs: now.UnixMilli(), Key: []byte{}, Value: value}}, NextOffset: 1, HighWatermark: 1,
	}, consumed), "%v", consumed)
	s.steps(t, step{"GET", "/topics/t/consume?partition=0&offset=0&encoding=base64", "", 200,
		page(1, 1, record(0, 0, "", base64.StdEncoding.EncodeToString(value)))})
	_, err = groups.CommitOffset(t.Context(), &logv1.CommitOffsetRequest{Group: "g", Topic: "t", Partition: proto.Int32(0), Offset: proto.Int64(1)})
	require.NoError(t, err)
	offsets, err := groups.GetOffsets(t.Context(), &logv1.GetOffsetsRequest{Group: "g"})
	require.NoError(t, err)
	require.EqualValues(t, 1, offsets.GetOffsets()["t"].GetPartitions()[0])
	_, err = log.Produce(t.Context(), &logv1.ProduceRequest{Topic: "t", ProducerId: proto.String("p"), Records: []*logv1.ProduceRecord{{}}})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "a sequence is missing")
	s.Coordinator.FailNext(fmt.Errorf("on fire"))
	_, err = topics.CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: "u"})
	require.Equal(t, codes.Internal, status.Code(err))
	require.NotContains(t, err.Error(), "fire")
}

// What storage and coordinator serve to each other is not for clients.
func TestGRPCServesThePublicServicesAlone(t *testing.T) {
	s := start(t)
	conn := dial(t, s)
	health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, health.GetStatus())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reflection, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, reflection.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	resp, err := reflection.Recv()
	require.NoError(t, err)
	var names []string
	for _, service := range resp.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	require.Equal(t, []string{
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"sluice.admin.v1.AdminService", "sluice.admin.v1.KeyService", "sluice.log.v1.GroupService", "sluice.log.v1.LogService", "sluice.log.v1.TopicService",
		"sluice.schema.v1.SchemaService",
	}, names)
}

// Where callers need no key, headers that are meant for a proxy are not in the way.
func TestHeadersOfProxies(t *testing.T) {
	for required, want := range map[bool]int{false: 200, true: 401} {
		s := start(t, func(c *gateway.Config) { c.Authenticated = required })
		for _, value := range []string{"Basic eDp5", "Bearer", "", "garbage"} {
			for _, path := range []string{"/topics", "/metrics"} {
				req := s.request(t, "GET", path, "")
				req.Header.Set("Authorization", value)
				require.Equal(t, want, s.send(t, req).status, "%s with %q, keys needed: %t", path, value, required)
			}
		}
	}
	s := start(t)
	proxied := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic eDp5")
	_, err := logv1.NewTopicServiceClient(dial(t, s)).ListTopics(proxied, &logv1.ListTopicsRequest{})
	require.NoError(t, err)
}

// Who may do what is decided under both doors, by what the registry says.
func TestGrantsHoldOnBothDoors(t *testing.T) {
	cluster := clustertest.New(t, "a")
	s := startOn(t, cluster)
	// The group is the reader's from a time when it could read everything.
	cluster.Registry.Require(map[string]*registryv1.Principal{"": {Id: "key_2", Admin: true}})
	s.steps(t, create("orders.eu", "1"), create("secret", "1"), step{"POST", "/groups/g/commit", `{"topic":"secret","partition":0,"offset":1}`, 204, ""},
		step{"POST", "/groups/g/commit", `{"topic":"orders.eu","partition":0,"offset":1}`, 204, ""})
	cluster.Registry.Require(map[string]*registryv1.Principal{
		"esk_admin":  {Id: "key_1", Admin: true},
		"esk_reader": {Id: "key_2", Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_READ, TopicPrefix: "orders"}}},
		"esk_writer": {Id: "key_3", Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_WRITE, TopicPrefix: "orders."}}},
	})
	as := func(secret, method, path, body string) int {
		req := s.request(t, method, path, body)
		other := s.request(t, method, path, body)
		if secret != "" {
			req.Header.Set("Authorization", "Bearer "+secret)
			other.Header.Set("X-Es-Key", secret)
		}
		first, second := s.send(t, req), s.send(t, other)
		require.Equal(t, first.status, second.status, "both headers count the same")
		return first.status
	}
	write := `{"records":[{"value":"x"}]}`
	for _, tc := range []struct {
		method, path, body          string
		nobody, reader, writer, adm int
	}{
		{"GET", "/topics", "", 401, 200, 200, 200},
		{"GET", "/topics/orders.eu", "", 401, 200, 200, 200},
		{"GET", "/topics/secret", "", 401, 403, 403, 200},
		{"GET", "/topics/none", "", 401, 403, 403, 404},
		{"POST", "/topics/orders.eu/produce", write, 401, 403, 200, 200},
		{"POST", "/topics/secret/produce", write, 401, 403, 403, 200},
		{"GET", "/topics/orders.eu/consume?partition=0&offset=0", "", 401, 200, 200, 200},
		{"GET", "/topics/secret/consume?partition=0&offset=0", "", 401, 403, 403, 200},
		{"GET", "/topics/secret/config", "", 401, 403, 403, 200},
		{"PUT", "/topics/orders.eu/config", `{"retention_ms":1}`, 401, 403, 403, 200},
		{"DELETE", "/topics/orders.xx", "", 401, 403, 403, 404},
		{"POST", "/groups/g/commit", `{"topic":"secret","partition":0,"offset":1}`, 401, 403, 403, 204},
		{"GET", "/groups/g/consume?topic=secret&partition=0", "", 401, 403, 403, 200},
		{"GET", "/groups/g/offsets", "", 401, 200, 403, 200},
		{"POST", "/groups/g/join", `{"topics":["orders.eu"]}`, 401, 200, 403, 200},
		{"POST", "/groups/g/heartbeat", `{"member_id":"m","generation":1}`, 401, 200, 403, 200},
		{"POST", "/groups/g/leave", `{"member_id":"m"}`, 401, 204, 403, 204},
		{"POST", "/admin/reset-offsets", `{"topic":"none"}`, 401, 403, 403, 404},
		{"POST", "/admin/run-retention", "", 401, 403, 403, 204},
		{"POST", "/admin/run-compaction", "", 401, 403, 403, 204},
		{"GET", "/metrics", "", 401, 200, 200, 200},
		{"GET", "/healthz", "", 200, 200, 200, 200},
	} {
		require.Equal(t, tc.nobody, as("", tc.method, tc.path, tc.body), "nobody %s %s", tc.method, tc.path)
		require.Equal(t, tc.nobody, as("esk_wrong", tc.method, tc.path, tc.body), "wrong key %s %s", tc.method, tc.path)
		require.Equal(t, tc.reader, as("esk_reader", tc.method, tc.path, tc.body), "reader %s %s", tc.method, tc.path)
		require.Equal(t, tc.writer, as("esk_writer", tc.method, tc.path, tc.body), "writer %s %s", tc.method, tc.path)
		require.Equal(t, tc.adm, as("esk_admin", tc.method, tc.path, tc.body), "admin %s %s", tc.method, tc.path)
	}
	read := func(path string) answer {
		req := s.request(t, "GET", path, "")
		req.Header.Set("X-Es-Key", "esk_reader")
		return bare(s.send(t, req))
	}
	require.Equal(t, answerOf(200, `{"topics":["orders.eu"]}`), read("/topics"))
	require.Equal(t, answerOf(200, `{"offsets":{"orders.eu":{"0":1}}}`), read("/groups/g/offsets"))
	metrics := read("/metrics").body
	require.Contains(t, metrics, `topic="orders.eu"`)
	require.NotContains(t, metrics, "secret")
	require.NotContains(t, metrics, "go_goroutines")

	// A principal cannot be forged from outside.
	forged := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic x")
	_, err := logv1.NewTopicServiceClient(dial(t, s)).ListTopics(forged, &logv1.ListTopicsRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	with := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer esk_reader")
	list, err := logv1.NewTopicServiceClient(dial(t, s)).ListTopics(with, &logv1.ListTopicsRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"orders.eu"}, list.GetTopics())
}

// Bad bytes end their own connection, nothing else.
func TestBadBytesOnTheSocket(t *testing.T) {
	s := start(t)
	for _, bytes := range []string{
		"\x00\x01\x02\r\n\r\n", "GET\r\n\r\n", "POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST /topics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
		"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
		"GET /topics/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /topics HTTP/1.1\r\n\r\n",
		"GET /topics HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", s.service.HTTPAddr().String())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		// The server may answer and hang up before all is written.
		_, _ = conn.Write([]byte(bytes))
		_ = conn.(*net.TCPConn).CloseWrite()
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			require.GreaterOrEqual(t, resp.StatusCode, 400, "%.60q", bytes)
			require.Less(t, resp.StatusCode, 500, "%.60q", bytes)
			require.NoError(t, resp.Body.Close())
		}
		require.NoError(t, conn.Close())
	}
	// A body that ends early.
	conn, err := net.Dial("tcp", s.service.HTTPAddr().String())
	require.NoError(t, err)
	_, err = conn.Write([]byte("POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{\"name\""))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, conn.Close())
	s.steps(t, step{"GET", "/topics", "", 200, `{"topics":[]}`})
}
