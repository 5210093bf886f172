package embedetcd

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// core hands what etcd logs with zap to a slog handler. What etcd calls info is
// of interest only to who looks into etcd, so it counts as debug here.
type core struct{ handler slog.Handler }

var _ zapcore.Core = core{}

func newCore(handler slog.Handler) zapcore.Core {
	return core{handler.WithAttrs([]slog.Attr{slog.String("component", "etcd")})}
}

// level never is more than error: zap's higher ones end a process.
func level(level zapcore.Level) slog.Level {
	switch {
	case level <= zapcore.InfoLevel:
		return slog.LevelDebug
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

// Enabled implements zapcore.Core.
func (c core) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), level(l))
}

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.handler.WithAttrs(attributes(fields))}
}

// Check implements zapcore.Core.
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(entry.Time, level(entry.Level), entry.Message, 0)
	record.AddAttrs(attributes(fields)...)
	return c.handler.Handle(context.Background(), record)
}

// Sync implements zapcore.Core.
func (core) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields))
	for _, field := range fields {
		// zap knows how to read a field of any of its kinds.
		values := zapcore.NewMapObjectEncoder()
		field.AddTo(values)
		for name, value := range values.Fields {
			attrs = append(attrs, slog.Any(name, value))
		}
	}
	return attrs
}
