package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
)

// fakeSchemas is a registry with one schema that takes no second.
type fakeSchemas struct {
	schemav1.UnimplementedSchemaServiceServer
	registered *schemav1.RegisterSchemaRequest
}

const incompatible = "backward-incompatible: new schema adds required field 'phone'"

func startFakeSchemas(t *testing.T) (*fakeSchemas, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fakeSchemas{}
	server := grpc.NewServer()
	schemav1.RegisterSchemaServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with an error only when the test has stopped it.
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return f, listener.Addr().String()
}

func (f *fakeSchemas) RegisterSchema(_ context.Context, req *schemav1.RegisterSchemaRequest) (*schemav1.RegisterSchemaResponse, error) {
	if f.registered != nil {
		return nil, status.Error(codes.FailedPrecondition, incompatible)
	}
	f.registered = req
	return &schemav1.RegisterSchemaResponse{Id: 7}, nil
}

func (f *fakeSchemas) schema() *schemav1.Schema {
	return &schemav1.Schema{Id: 7, Subject: f.registered.GetSubject(), Version: 1, Type: f.registered.GetType(), Schema: f.registered.GetSchema()}
}

func (f *fakeSchemas) ListSchemas(context.Context, *schemav1.ListSchemasRequest) (*schemav1.ListSchemasResponse, error) {
	return &schemav1.ListSchemasResponse{Schemas: []*schemav1.Schema{f.schema()}}, nil
}

func (f *fakeSchemas) GetSchema(_ context.Context, req *schemav1.GetSchemaRequest) (*schemav1.GetSchemaResponse, error) {
	if req.GetId() != 7 {
		return nil, status.Error(codes.NotFound, "there is no such schema")
	}
	return &schemav1.GetSchemaResponse{Schema: f.schema()}, nil
}

func (f *fakeSchemas) GetLatestSchema(context.Context, *schemav1.GetLatestSchemaRequest) (*schemav1.GetLatestSchemaResponse, error) {
	return &schemav1.GetLatestSchemaResponse{Schema: f.schema()}, nil
}

func (f *fakeSchemas) CheckSchema(_ context.Context, req *schemav1.CheckSchemaRequest) (*schemav1.CheckSchemaResponse, error) {
	if req.GetSchema() == f.registered.GetSchema() {
		return &schemav1.CheckSchemaResponse{Compatible: true}, nil
	}
	return &schemav1.CheckSchemaResponse{Messages: []string{incompatible}}, nil
}

func TestSchemaCommands(t *testing.T) {
	f, address := startFakeSchemas(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	require.NoError(t, os.WriteFile(good, []byte(`{"type":"object"}`), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte(`{"required":["phone"]}`), 0o600))

	for _, row := range []struct {
		args   []string
		status int
		out    string
		err    string
	}{
		{[]string{"register", "orders-value", good}, exitOK, "7\n", ""},
		{[]string{"register", "orders-value", bad}, exitFailure, "", incompatible},
		{[]string{"register", "orders-value", filepath.Join(dir, "absent")}, exitFailure, "", "no such file"},
		{[]string{"register", "orders-value", good, "--type", "xml"}, exitUsage, "", "must be one of json_schema, avro, protobuf"},
		{[]string{"list"}, exitOK, "ID   SUBJECT        VERSION   TYPE\n7    orders-value   1         json_schema\n", ""},
		{[]string{"get", "7"}, exitOK, `{"type":"object"}` + "\n", ""},
		{[]string{"get", "8"}, exitFailure, "", "there is no such schema"},
		{[]string{"get", "x"}, exitUsage, "", `"x" is no id`},
		{[]string{"latest", "orders-value", "-o", "json"}, exitOK, `{
  "id": 7,
  "schema": "{\"type\":\"object\"}",
  "subject": "orders-value",
  "type": "json_schema",
  "version": 1
}
`, ""},
		{[]string{"check", "orders-value", good}, exitOK, "compatible\n", ""},
		{[]string{"check", "orders-value", bad}, exitFailure, incompatible + "\n", "not compatible"},
		{[]string{"check", "orders-value", good, "-o", "json"}, exitOK, "{\n  \"compatible\": true,\n  \"messages\": []\n}\n", ""},
	} {
		got := execute(t, address, append([]string{"schema"}, row.args...)...)
		require.Equal(t, row.out, got.out, row.args)
		require.Equal(t, row.status, got.status, "%v: %s", row.args, got.err)
		require.Contains(t, got.err, row.err, row.args)
	}
	require.Equal(t, "orders-value", f.registered.GetSubject())
	require.Equal(t, "json_schema", f.registered.GetType())
}
