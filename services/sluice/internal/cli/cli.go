// Package cli is the command line of sluice: the commands that run a server and
// those that talk to one over its public gRPC API.
//
// A command exits with 0 when it did what was asked, with 2 when it was asked
// in a way that it does not understand, and with 1 when it failed.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Streams are the three standard streams. A progress bar is drawn only if Err
// is a terminal.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Main runs the command that args name and returns the exit status. The first
// SIGINT or SIGTERM ends the command's context; a second one ends the process.
func Main(args []string, streams Streams) int {
	ctx, stop := life.SignalContext(context.Background())
	defer stop()
	// The process is this command's alone.
	obs.TakeGRPCLog()
	return run(ctx, args, streams)
}

func run(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	var failed *failure
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &failed):
		fmt.Fprintf(streams.Err, "%s: %v\n", command.CommandPath(), failed.error)
		return exitFailure
	default:
		fmt.Fprintf(streams.Err, "%s: %v\nTry '%s --help'.\n", command.CommandPath(), err, command.CommandPath())
		return exitUsage
	}
}

func newRoot(streams Streams) *cobra.Command {
	root := group("sluice", "Durable, ordered logs behind HTTP, gRPC and more")
	root.Long = "Sluice keeps records in ordered, durable logs.\n\n" +
		"'sluice serve' starts everything in one process. The client commands talk to\n" +
		"a server over gRPC, at --server or SLUICE_SERVER."
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.AddCommand(
		newServe(),
		newRole(sluice.Storage, "Run a storage node"),
		newRole(sluice.Coordinator, "Run a coordinator"),
		newRole(sluice.Registry, "Run a registry"),
		newRole(sluice.Gateway, "Run a gateway"),
		newTopic(),
		newProduce(),
		newConsume(),
		newGroup(),
		newKey(),
		newSchema(),
		newAdmin(),
		newHealth(),
		newVersion(),
	)
	markFailures(root)
	return root
}

// group returns a command that only holds others.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Help()
			}
			return usagef("unknown command %q", args[0])
		},
	}
}

// failure is the error of a command that was understood.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// usageError is the error of a command that was not understood, found only
// after it began. What cobra itself finds wrong is neither type.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// markFailures makes every error that a command returns a failure, so that
// what is left is cobra's own complaint about flags and arguments.
func markFailures(command *cobra.Command) {
	if inner := command.RunE; inner != nil {
		command.RunE = func(command *cobra.Command, args []string) error {
			err := inner(command, args)
			var usage *usageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return &failure{err}
		}
	}
	for _, child := range command.Commands() {
		markFailures(child)
	}
}
