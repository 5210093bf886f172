package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newGroupReset(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "reset TOPIC",
		Short: "Move every group on a topic back to its first offset",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			got, err := call(command.Context(), server, adminv1.NewAdminServiceClient(server.conn).ResetOffsets,
				&adminv1.ResetOffsetsRequest{Topic: args[0]})
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "moved %s of %s on %s back to the first\n",
				count(int(got.GetEntriesReset()), "offset"), count(int(got.GetGroupsAffected()), "group"), args[0])
			return nil
		},
	}
}
