package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newAdmin() *cobra.Command {
	flags := &remoteFlags{}
	command := group("admin", "Look after a server")
	flags.register(command)
	command.AddCommand(
		newAdminRaft(flags),
		newAdminPass(flags, "retention", "Run a retention pass on every node and wait for it",
			func(command *cobra.Command, server *remote) error {
				_, err := call(command.Context(), server, server.admin.RunRetention, &adminv1.RunRetentionRequest{})
				return err
			}),
		newAdminPass(flags, "compaction", "Run a compaction pass on every node and wait for it",
			func(command *cobra.Command, server *remote) error {
				_, err := call(command.Context(), server, server.admin.RunCompaction, &adminv1.RunCompactionRequest{})
				return err
			}),
		newAdminProducers(flags),
		newResetOffsets(flags, "reset-offsets"),
		newAdminNodes(flags),
		newAdminForgetNode(flags),
		newAdminTiered(flags),
	)
	return command
}

// newAdminPass is a pass over all data. It may take hours, so it has all the
// time that it needs unless --timeout says otherwise.
func newAdminPass(flags *remoteFlags, name, short string, run func(*cobra.Command, *remote) error) *cobra.Command {
	return &cobra.Command{
		Use:   "run-" + name,
		Short: short,
		Long:  short + ".\n\nThere is no limit of time unless --timeout gives one.",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			if !command.Flags().Changed("timeout") {
				server.timeout = noLimit
			}
			if err := run(command, server); err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "the %s pass is done on every node\n", name)
			return nil
		},
	}
}
