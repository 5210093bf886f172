package replica

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// raftPanic is what Raft's Panic and Fatal become: a value that the replica
// recovers, so that a broken group never takes the process along.
type raftPanic struct{ message string }

func (p raftPanic) String() string { return p.message }

// raftLogger passes Raft's log on. Raft is chatty at Info (each election of each
// partition), so that becomes Debug.
type raftLogger struct{ to *slog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) log(level slog.Level, text func() string) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, "raft: "+text())
	}
}

func sprint(v []any) func() string { return func() string { return fmt.Sprint(v...) } }

func sprintf(format string, v []any) func() string {
	return func() string { return fmt.Sprintf(format, v...) }
}

func (l raftLogger) Debug(v ...any)                   { l.log(slog.LevelDebug, sprint(v)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.log(slog.LevelDebug, sprintf(format, v)) }
func (l raftLogger) Info(v ...any)                    { l.log(slog.LevelDebug, sprint(v)) }
func (l raftLogger) Infof(format string, v ...any)    { l.log(slog.LevelDebug, sprintf(format, v)) }
func (l raftLogger) Warning(v ...any)                 { l.log(slog.LevelWarn, sprint(v)) }
func (l raftLogger) Warningf(format string, v ...any) { l.log(slog.LevelWarn, sprintf(format, v)) }
func (l raftLogger) Error(v ...any)                   { l.log(slog.LevelError, sprint(v)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.log(slog.LevelError, sprintf(format, v)) }
func (l raftLogger) Fatal(v ...any)                   { panic(raftPanic{fmt.Sprint(v...)}) }
func (l raftLogger) Fatalf(format string, v ...any)   { panic(raftPanic{fmt.Sprintf(format, v...)}) }
func (l raftLogger) Panic(v ...any)                   { panic(raftPanic{fmt.Sprint(v...)}) }
func (l raftLogger) Panicf(format string, v ...any)   { panic(raftPanic{fmt.Sprintf(format, v...)}) }
