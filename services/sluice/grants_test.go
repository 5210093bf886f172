package sluice_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sluiceio/sluice/services/sluice"
)

// Who may call what, in the words of the document. Letters stand for keys: o may
// write on a topic beside, r may read and w may write on the topics at hand, and a
// is admin on *.
const (
	everybody = "orwa"
	readers   = "rwa"
	writers   = "wa"
	admins    = "a"
)

// Each method of the public API, and how it is asked for over HTTP. %s is the
// letter of whoever asks, so that nobody finds what others did.
var methods = map[string]struct{ who, method, path, body string }{
	"sluice.log.v1.TopicService.CreateTopic":          {admins, "POST", "/topics", `{"name":"orders.new-%s"}`},
	"sluice.log.v1.TopicService.ListTopics":           {everybody, "GET", "/topics", ""},
	"sluice.log.v1.TopicService.GetTopic":             {readers, "GET", "/topics/orders", ""},
	"sluice.log.v1.TopicService.GetTopicConfig":       {readers, "GET", "/topics/orders/config", ""},
	"sluice.log.v1.TopicService.UpdateTopicConfig":    {admins, "PUT", "/topics/orders/config", `{"retention_ms":86400000}`},
	"sluice.log.v1.TopicService.DeleteTopic":          {admins, "DELETE", "/topics/orders.old", ""},
	"sluice.log.v1.LogService.Produce":                {writers, "POST", "/topics/orders/produce", `{"records":[{"value":"%s"}]}`},
	"sluice.log.v1.LogService.Consume":                {readers, "GET", "/topics/orders/consume?partition=0&offset=0", ""},
	"sluice.log.v1.GroupService.ConsumeGroup":         {readers, "GET", "/groups/g-%s/consume?topic=orders&partition=0", ""},
	"sluice.log.v1.GroupService.CommitOffset":         {readers, "POST", "/groups/g-%s/commit", `{"topic":"orders","partition":0,"offset":0}`},
	"sluice.log.v1.GroupService.GetOffsets":           {everybody, "GET", "/groups/g-%s/offsets", ""},
	"sluice.log.v1.GroupService.JoinGroup":            {readers, "POST", "/groups/j-%s/join", `{"topics":["orders"]}`},
	"sluice.log.v1.GroupService.Heartbeat":            {everybody, "POST", "/groups/h-%s/heartbeat", `{"member_id":"m","generation":1}`},
	"sluice.log.v1.GroupService.LeaveGroup":           {everybody, "POST", "/groups/h-%s/leave", `{"member_id":"m"}`},
	"sluice.log.v1.GroupService.GetAssignment":        {everybody, "GET", "/groups/h-%s/assignment?member_id=m", ""},
	"sluice.admin.v1.AdminService.RunRetention":       {admins, "POST", "/admin/run-retention", ""},
	"sluice.admin.v1.AdminService.RunCompaction":      {admins, "POST", "/admin/run-compaction", ""},
	"sluice.admin.v1.AdminService.ListProducers":      {admins, "GET", "/admin/producers", ""},
	"sluice.admin.v1.AdminService.DeleteProducer":     {admins, "DELETE", "/admin/producers/none", ""},
	"sluice.admin.v1.AdminService.ResetOffsets":       {admins, "POST", "/admin/reset-offsets", `{"topic":"orders"}`},
	"sluice.log.v1.GroupService.DeleteGroup":          {everybody, "DELETE", "/groups/h-%s", ""},
	"sluice.admin.v1.AdminService.ListNodes":          {admins, "GET", "/admin/nodes", ""},
	"sluice.admin.v1.AdminService.ForgetNode":         {admins, "DELETE", "/admin/nodes/none", ""},
	"sluice.admin.v1.AdminService.GetRaft":            {admins, "GET", "/raft", ""},
	"sluice.admin.v1.AdminService.ListTieredSegments": {admins, "GET", "/admin/tiered/orders/0", ""},
	"sluice.admin.v1.KeyService.CreateKey":            {admins, "POST", "/admin/keys", `{"name":"made by %s"}`},
	"sluice.admin.v1.KeyService.ListKeys":             {admins, "GET", "/admin/keys", ""},
	"sluice.admin.v1.KeyService.DeleteKey":            {admins, "DELETE", "/admin/keys/key_000000000000", ""},
	"sluice.schema.v1.SchemaService.RegisterSchema":   {admins, "POST", "/schemas", `{"subject":"new-%s","type":"json_schema","schema":"{}"}`},
	"sluice.schema.v1.SchemaService.ListSchemas":      {everybody, "GET", "/schemas", ""},
	"sluice.schema.v1.SchemaService.GetSchema":        {readers, "GET", "/schemas/1", ""},
	"sluice.schema.v1.SchemaService.GetLatestSchema":  {readers, "GET", "/subjects/orders-value/versions/latest", ""},
	"sluice.schema.v1.SchemaService.CheckSchema":      {readers, "POST", "/subjects/orders-value/check", `{"type":"json_schema","schema":"{}"}`},
}

func TestEveryMethodForEveryKey(t *testing.T) {
	g := startGuarded(t, t.TempDir(), nil, sluice.AllRoles()...)
	for _, topic := range []string{"orders", "orders.old", "other", "ordersecret"} {
		g.must(t, 201, g.admin, "POST", "/topics", `{"name":"`+topic+`"}`)
	}
	g.must(t, 200, g.admin, "POST", "/schemas", `{"subject":"orders-value","type":"json_schema","schema":"{}"}`)
	key := func(action, prefix string) string {
		return g.key(t, g.admin, fmt.Sprintf(`{"name":"%s on %s","acls":[{"action":%[1]q,"topic_prefix":%[2]q}]}`, action, prefix)).Secret
	}
	keys := map[string]string{"o": key("write", "other"), "r": key("read", "orders"), "w": key("write", "orders"), "a": g.admin}
	// Administration is of the cluster: of some topics there is none.
	keys["limited admin"] = key("admin", "orders")

	for _, name := range g.publicMethods(t) {
		call, known := methods[name]
		require.True(t, known, "%s has no row in the table: say who may call it", name)
		ask := func(who, secret string) answer {
			letter := strings.ReplaceAll(who, " ", "")
			return g.do(t, secret, call.method, strings.ReplaceAll(call.path, "%s", letter), strings.ReplaceAll(call.body, "%s", letter))
		}
		if ask("a", g.admin).status == http.StatusNotImplemented {
			continue
		}
		for _, secret := range []string{"", "esk_" + strings.Repeat("A", 43), "nonsense"} {
			require.Equal(t, 401, ask("nobody", secret).status, "%s with %q", name, secret)
		}
		for who, secret := range keys {
			got := ask(who, secret)
			if who == "a" {
				continue
			}
			require.NotContains(t, got.body, "ordersecret", "%s as %s", name, who)
			switch {
			case who == "limited admin" && call.who != admins, strings.Contains(call.who, who):
				require.NotContains(t, []int{401, 403}, got.status, "%s as %s: %s", name, who, got.body)
			default:
				require.Equal(t, 403, got.status, "%s as %s: %s", name, who, got.body)
			}
		}
		// The other door asks just as much.
		err := g.conn.Invoke(t.Context(), "/"+strings.Replace(name, "Service.", "Service/", 1), emptyMessage(t, name), &dynamicpb.Message{})
		require.Equal(t, codes.Unauthenticated, status.Code(err), name)
		wrong := metadata.AppendToOutgoingContext(t.Context(), "x-es-key", "esk_nonsense")
		err = g.conn.Invoke(wrong, "/"+strings.Replace(name, "Service.", "Service/", 1), emptyMessage(t, name), &dynamicpb.Message{})
		require.Equal(t, codes.Unauthenticated, status.Code(err), name)
	}

	// Whoever is not granted a topic does not learn whether there is one: neither
	// from the answer nor from what it says.
	for _, call := range [][3]string{
		{"GET", "/topics/%s", ""},
		{"GET", "/topics/%s/config", ""},
		{"POST", "/topics/%s/produce", `{"records":[{"value":"x"}]}`},
		{"GET", "/topics/%s/consume?partition=0&offset=0", ""},
		{"GET", "/groups/x/consume?topic=%s&partition=0", ""},
		{"POST", "/groups/x/commit", `{"topic":"%s","partition":0,"offset":0}`},
		{"POST", "/groups/x/join", `{"topics":["%s"]}`},
		{"DELETE", "/topics/%s", ""},
		{"PUT", "/topics/%s/config", `{}`},
		{"POST", "/admin/reset-offsets", `{"topic":"%s"}`},
	} {
		about := func(topic string) answer {
			got := g.do(t, keys["o"], call[0], strings.ReplaceAll(call[1], "%s", topic), strings.ReplaceAll(call[2], "%s", topic))
			return answer{got.status, strings.ReplaceAll(got.body, topic, "TOPIC"), nil}
		}
		there := about("ordersecret")
		require.Equal(t, 403, there.status, call)
		require.Equal(t, there, about("no-such-topic"), call)
		require.Equal(t, there, about("__sluice_shards"), call)
	}
	// The system's own topics are absent for everybody.
	g.must(t, 404, g.admin, "GET", "/topics/__sluice_shards", "")
	require.NotContains(t, g.must(t, 200, g.admin, "GET", "/topics", ""), "__")

	// Lists and metrics have what a key may read and nothing else.
	require.Equal(t, `{"topics":["other"]}`, g.must(t, 200, keys["o"], "GET", "/topics", ""))
	require.Contains(t, g.must(t, 200, keys["r"], "GET", "/topics", ""), `{"topics":["orders"`)
	require.Equal(t, 401, g.do(t, "", "GET", "/metrics", "").status)
	others := g.must(t, 200, keys["o"], "GET", "/metrics", "")
	require.Contains(t, others, `topic="other"`)
	require.NotContains(t, others, "orders")
	require.NotContains(t, others, "go_goroutines")
	all := g.must(t, 200, g.admin, "GET", "/metrics", "")
	require.Contains(t, all, `topic="ordersecret"`)
	require.Contains(t, all, "go_goroutines")

	// No key needed.
	require.Contains(t, g.must(t, 200, "", "GET", "/healthz", ""), `"status":"ok"`)
	g.must(t, 200, "", "GET", "/readyz", "")
}

// publicMethods are the methods that the node serves to clients.
func (g *guarded) publicMethods(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(g.conn).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	resp, err := stream.Recv()
	require.NoError(t, err)
	var names []string
	for _, service := range resp.GetListServicesResponse().GetService() {
		if !strings.HasPrefix(service.GetName(), "sluice.") {
			continue
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.GetName()))
		require.NoError(t, err)
		list := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range list.Len() {
			names = append(names, string(list.Get(i).FullName()))
		}
	}
	require.NotEmpty(t, names)
	return names
}

func emptyMessage(t *testing.T, method string) *dynamicpb.Message {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(method))
	require.NoError(t, err)
	return dynamicpb.NewMessage(found.(protoreflect.MethodDescriptor).Input())
}
