package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
)

const (
	defaultServer = "127.0.0.1:9090"
	// Above what the server lets a fetch answer: a whole record may be larger
	// than the bytes that were asked for.
	maxMessageBytes = 64 << 20
)

// remote is a server's public gRPC API.
type remote struct {
	topics  logv1.TopicServiceClient
	log     logv1.LogServiceClient
	groups  logv1.GroupServiceClient
	admin   adminv1.AdminServiceClient
	schemas schemav1.SchemaServiceClient
	keys    adminv1.KeyServiceClient

	server string
	// How long one request may take, or noLimit.
	timeout time.Duration
	conn    *grpc.ClientConn
}

// noLimit lets a request take as long as it takes.
const noLimit time.Duration = 0

// remoteFlags are the flags of every command that talks to a server.
type remoteFlags struct {
	server   string
	timeout  time.Duration
	security security
}

func (f *remoteFlags) register(command *cobra.Command) {
	server := os.Getenv("SLUICE_SERVER")
	if server == "" {
		server = defaultServer
	}
	flags := command.PersistentFlags()
	flags.StringVar(&f.server, "server", server, "gRPC address of the server (SLUICE_SERVER)")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long one request may take")
	f.security.register(command)
}

// dial returns the API of the server. It connects with the first call.
func (f *remoteFlags) dial() (*remote, error) {
	if f.timeout <= 0 {
		return nil, usagef("--timeout %v: must be positive", f.timeout)
	}
	if scheme, _, found := strings.Cut(f.server, "://"); found && strings.HasPrefix(scheme, "http") {
		// gRPC would take it for the name of a host, and find that out late.
		return nil, usagef("--server %q: expected host:port of the gRPC API, got a URL", f.server)
	}
	options, err := f.security.dialOptions()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(f.server, append(options, grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(maxMessageBytes),
		grpc.MaxCallSendMsgSize(maxMessageBytes),
	))...)
	if err != nil {
		return nil, usagef("--server %q: %w", f.server, err)
	}
	return &remote{
		topics:  logv1.NewTopicServiceClient(conn),
		log:     logv1.NewLogServiceClient(conn),
		groups:  logv1.NewGroupServiceClient(conn),
		admin:   adminv1.NewAdminServiceClient(conn),
		schemas: schemav1.NewSchemaServiceClient(conn),
		keys:    adminv1.NewKeyServiceClient(conn),
		server:  f.server,
		timeout: f.timeout,
		conn:    conn,
	}, nil
}

func (r *remote) close() { r.conn.Close() }

// call runs one request with the time that it may take.
func call[Request, Response any](
	ctx context.Context,
	r *remote,
	method func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	if r.timeout != noLimit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	response, err := method(ctx, request)
	if err != nil {
		return response, &remoteError{server: r.server, status: status.Convert(err)}
	}
	return response, nil
}

// remoteError is a server's answer that is not the one hoped for, or its
// absence.
type remoteError struct {
	server string
	status *status.Status
}

func (e *remoteError) GRPCStatus() *status.Status { return e.status }

func (e *remoteError) Error() string {
	switch e.status.Code() {
	case codes.Unavailable:
		return fmt.Sprintf("%s is not available: %s", e.server, e.status.Message())
	case codes.DeadlineExceeded:
		return e.server + " did not answer in time"
	default:
		return e.status.Message()
	}
}

// ambiguous reports whether a failed write may have been done all the same.
func ambiguous(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal:
		return true
	default:
		return errors.Is(err, context.Canceled)
	}
}
