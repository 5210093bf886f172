package errs

import (
	"context"

	"github.com/google/uuid"
)

type idKey struct{}

// WithID returns a context whose log lines carry an error id (the handler of
// kit/obs adds it).
func WithID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// ID returns the context's error id, empty when it has none.
func ID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// newID returns an id that a person can find in a log. It tells nothing.
func newID() string {
	return uuid.NewString()
}
