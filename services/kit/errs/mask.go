package errs

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ReasonInternal is the reason of an error that was masked. Its metadata has the
// id under [MetadataErrorID].
const ReasonInternal = "INTERNAL"

// MetadataErrorID is the key of the id of a masked error.
const MetadataErrorID = "error_id"

// Mask returns what may leave the process of err, as an error with a gRPC
// status:
//
//   - an [Error] of any kind but Internal: itself, without its cause and without
//     what was wrapped around it;
//   - an error that another process of ours has masked already: itself, so that
//     one id leads through the logs of all;
//   - the end of a context, here or behind a connection: Canceled, or
//     DeadlineExceeded in words for whoever asked;
//   - a status of somebody else's (a health check that does not know a service):
//     itself, but Unavailable without its text, which names addresses;
//   - everything else: "internal error (id …)". The error goes to the log under
//     that id; an error that implements slog.LogValuer can add to it.
func Mask(ctx context.Context, logger *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := From(err); ok {
		switch {
		case e.reason != "" && (e.kind != Internal || e.metadata[MetadataErrorID] != ""):
			return e.GRPCStatus().Err()
		case e.reason != "" || e.kind == Internal || e.kind == Kind(codes.Unknown) || e.kind == DataLoss:
			return internal(ctx, logger, err)
		case e.kind == Unavailable:
			logger.DebugContext(ctx, "call failed", "error", err)
			return status.Error(codes.Unavailable, "unavailable")
		case e.kind == DeadlineExceeded:
			return outOfTime()
		default:
			return e.GRPCStatus().Err()
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return outOfTime()
	}
	return internal(ctx, logger, err)
}

func outOfTime() error {
	return status.Error(codes.DeadlineExceeded, "there was no answer in time; what was asked for may or may not have been done")
}

func internal(ctx context.Context, logger *slog.Logger, err error) error {
	id := newID()
	logger.ErrorContext(WithID(ctx, id), "internal error", "error", err)
	return New(Internal, ReasonInternal, "internal error (id %s)", id).
		With(MetadataErrorID, id).GRPCStatus().Err()
}
