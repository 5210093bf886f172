package obs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"google.golang.org/grpc/grpclog"
)

// TakeGRPCLog keeps what the gRPC libraries say of connections from standard
// error: for them a client that hangs up is an error. It goes where LogGRPC says. It
// holds for the whole process and must be called before anything of gRPC is.
func TakeGRPCLog() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, grpcLines{}))
}

// LogGRPC has what TakeGRPCLog keeps go to a log from now on, at debug level.
func LogGRPC(logger *slog.Logger) { grpcLog.Store(logger) }

// grpcLog is where the lines go; nil is nowhere. One for the process, as gRPC's is.
var grpcLog atomic.Pointer[slog.Logger]

// grpcLines logs each line that is written to it.
type grpcLines struct{}

// Write logs one line.
func (grpcLines) Write(line []byte) (int, error) {
	if logger := grpcLog.Load(); logger != nil {
		logger.DebugContext(context.Background(), string(bytes.TrimRight(line, "\n")))
	}
	return len(line), nil
}
