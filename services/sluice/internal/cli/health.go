package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

var errNotServing = errors.New("the server is not ready")

// newHealth is for health checks of images that have nothing but this program.
func newHealth() *cobra.Command {
	flags := &remoteFlags{}
	command := &cobra.Command{
		Use:   "health",
		Short: "Ask whether a server is ready, and fail if it is not",
		Long: "Asks whether a server is ready, at its gRPC address or, for a service without\n" +
			"doors, at its --bind-internal. It fails if the server is not.",
		Example: "  sluice health\n" +
			"  sluice health --server 127.0.0.1:9100 --timeout 2s",
		Args: cobra.NoArgs,
	}
	flags.register(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		answer, err := call(command.Context(), server, healthv1.NewHealthClient(server.conn).Check, &healthv1.HealthCheckRequest{})
		if err != nil {
			return err
		}
		if answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			return errNotServing
		}
		fmt.Fprintln(command.OutOrStdout(), "ready")
		return nil
	}
	return command
}
