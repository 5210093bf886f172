package obs

import (
	"bytes"
	"context"
	"io"
	"log/slog"

	"google.golang.org/grpc/grpclog"
)

// TakeGRPCLog has what the gRPC libraries say of connections go to the log, at
// debug level: for them a client that hangs up is an error, and they would write
// it to standard error as it is. It holds for the whole process and must be called
// before anything of gRPC is.
func TakeGRPCLog(logger *slog.Logger) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, debugLines{logger}))
}

// debugLines logs each line that is written to it.
type debugLines struct{ logger *slog.Logger }

// Write logs one line.
func (l debugLines) Write(line []byte) (int, error) {
	l.logger.DebugContext(context.Background(), string(bytes.TrimRight(line, "\n")))
	return len(line), nil
}
