package cli

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// fakeKeys is a server that has keys and asks for one.
type fakeKeys struct {
	adminv1.UnimplementedKeyServiceServer
	address string

	mu   sync.Mutex
	keys []*adminv1.Key
}

const fakeSecret = "esk_of-the-administrator"

func startKeys(t *testing.T) *fakeKeys {
	t.Helper()
	f := &fakeKeys{}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.address = listener.Addr().String()
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+fakeSecret {
			return nil, status.Error(codes.Unauthenticated, "the key is not known")
		}
		return handler(ctx, req)
	}))
	adminv1.RegisterKeyServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return f
}

func (f *fakeKeys) CreateKey(_ context.Context, r *adminv1.CreateKeyRequest) (*adminv1.CreateKeyResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := &adminv1.Key{
		KeyId: "key_00000000000" + string(rune('0'+len(f.keys))), Name: r.GetName(), Acls: r.GetAcls(),
		ProduceBytesPerSec: r.ProduceBytesPerSec, ConsumeBytesPerSec: r.ConsumeBytesPerSec, CreatedAtMs: 1763500000000,
	}
	f.keys = append(f.keys, key)
	return &adminv1.CreateKeyResponse{Key: key, Secret: "esk_new"}, nil
}

func (f *fakeKeys) ListKeys(context.Context, *adminv1.ListKeysRequest) (*adminv1.ListKeysResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &adminv1.ListKeysResponse{Keys: f.keys}, nil
}

func (f *fakeKeys) DeleteKey(_ context.Context, r *adminv1.DeleteKeyRequest) (*adminv1.DeleteKeyResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, key := range f.keys {
		if key.GetKeyId() == r.GetKeyId() {
			f.keys[i] = proto.Clone(key).(*adminv1.Key)
			f.keys[i].Disabled = true
			return &adminv1.DeleteKeyResponse{}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "there is no such key")
}

func TestKeys(t *testing.T) {
	server := startKeys(t)
	o := execute(t, server.address, "key", "list")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "the key is not known")
	t.Setenv("SLUICE_KEY", fakeSecret)
	require.NotContains(t, succeed(t, server.address, "key", "--help").out, fakeSecret)

	o = succeed(t, server.address, "key", "create", "orders-writer", "--write", "orders", "--read", "billing.", "--produce-bytes-per-sec", "1048576")
	require.Equal(t, "esk_new\n", o.out, "the secret and nothing else")
	require.Contains(t, o.err, "key_000000000000")
	require.JSONEq(t, `{"key":{"key_id":"key_000000000001","name":"op","acls":[{"action":"admin","topic_prefix":"*"}],
		"produce_bytes_per_sec":null,"consume_bytes_per_sec":null,"created_at_ms":1763500000000,"disabled":false},"secret":"esk_new"}`,
		succeed(t, server.address, "key", "create", "op", "--admin", "-o", "json").out)
	require.Equal(t, exitUsage, execute(t, server.address, "key", "create", "nothing").status)

	require.Equal(t, "revoked key_000000000001\n", succeed(t, server.address, "key", "revoke", "key_000000000001").out)
	require.Equal(t, strings.Join([]string{
		"KEY                NAME            GRANTS                       PRODUCE/S   CONSUME/S   CREATED                STATE",
		"key_000000000000   orders-writer   read:billing. write:orders   1048576     unlimited   2025-11-18T21:06:40Z   valid",
		"key_000000000001   op              admin:*                      unlimited   unlimited   2025-11-18T21:06:40Z   revoked",
		"",
	}, "\n"), succeed(t, server.address, "key", "list").out)
	require.Contains(t, succeed(t, server.address, "key", "list", "-o", "json").out, `"disabled": true`)
	require.Equal(t, exitFailure, execute(t, server.address, "key", "revoke", "key_none").status)
}
