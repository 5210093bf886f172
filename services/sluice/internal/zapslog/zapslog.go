// Package zapslog hands what etcd logs with zap to a slog handler.
package zapslog

import (
	"context"
	"log/slog"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a zap logger over a slog logger. What etcd calls info is of interest
// only to who looks into etcd, so it counts as debug here, as do the messages
// that are named harmless.
func New(logger *slog.Logger, harmless ...string) *zap.Logger {
	return zap.New(core{
		handler:  logger.Handler().WithAttrs([]slog.Attr{slog.String("component", "etcd")}),
		harmless: harmless,
	})
}

type core struct {
	handler  slog.Handler
	harmless []string
}

var _ zapcore.Core = core{}

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
	c.handler = c.handler.WithAttrs(attributes(fields))
	return c
}

// Check implements zapcore.Core.
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.handler.Enabled(context.Background(), c.levelOf(entry)) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(entry.Time, c.levelOf(entry), entry.Message, 0)
	record.AddAttrs(attributes(fields)...)
	return c.handler.Handle(context.Background(), record)
}

func (c core) levelOf(entry zapcore.Entry) slog.Level {
	if slices.Contains(c.harmless, entry.Message) {
		return slog.LevelDebug
	}
	return level(entry.Level)
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
