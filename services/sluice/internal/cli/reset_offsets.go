package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// newResetOffsets is one command under two names: among what administrators do,
// and among what there is to do with groups.
func newResetOffsets(flags *remoteFlags, name string) *cobra.Command {
	command := &cobra.Command{
		Use:               name + " TOPIC",
		Short:             "Move every group on a topic back to its first offset",
		Long:              "Moves every group on a topic back to the first offset of each partition. It\nneeds a key with admin on *. 'group reset' is short for 'admin reset-offsets'.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopic(flags),
	}
	output := registerChoice(command, "output", "o", "how to tell what was reset", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.admin.ResetOffsets, &adminv1.ResetOffsetsRequest{Topic: args[0]})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), struct {
				GroupsAffected int64 `json:"groups_affected"`
				EntriesReset   int64 `json:"entries_reset"`
			}{response.GetGroupsAffected(), response.GetEntriesReset()})
		}
		fmt.Fprintf(command.OutOrStdout(), "%s: %s back at the first offset, in %s\n", args[0],
			count(int(response.GetEntriesReset()), "offset"), count(int(response.GetGroupsAffected()), "group"))
		return nil
	}
	return command
}
