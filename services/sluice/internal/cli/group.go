package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

func newGroup() *cobra.Command {
	flags := &remoteFlags{}
	command := group("group", "Show, set and forget how far consumer groups have read, and who is a member")
	flags.register(command)
	command.AddCommand(
		newGroupOffsets(flags),
		newGroupCommit(flags),
		newResetOffsets(flags, "reset"),
		newGroupJoin(flags),
		newGroupHeartbeat(flags),
		newGroupAssignment(flags),
		newGroupLeave(flags),
		newGroupDelete(flags),
	)
	return command
}

func newGroupOffsets(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "offsets GROUP",
		Short: "Show a group's committed offsets",
		Args:  cobra.ExactArgs(1),
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.groups.GetOffsets, &logv1.GetOffsetsRequest{Group: args[0]})
		if err != nil {
			return err
		}
		offsets := make(map[string]map[int32]int64, len(response.GetOffsets()))
		for topic, partitions := range response.GetOffsets() {
			offsets[topic] = partitions.GetPartitions()
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), map[string]any{"offsets": offsets})
		}
		var rows [][]string
		for _, topic := range slices.Sorted(maps.Keys(offsets)) {
			for _, partition := range slices.Sorted(maps.Keys(offsets[topic])) {
				rows = append(rows, []string{
					topic, strconv.Itoa(int(partition)), strconv.FormatInt(offsets[topic][partition], 10),
				})
			}
		}
		return writeTable(command.OutOrStdout(), []string{"TOPIC", "PARTITION", "OFFSET"}, rows)
	}
	return command
}

func newGroupCommit(flags *remoteFlags) *cobra.Command {
	var topic string
	var partition int32
	var offset int64
	command := &cobra.Command{
		Use:     "commit GROUP",
		Short:   "Set the next offset that a group will read",
		Example: "  sluice group commit analytics --topic orders --partition 0 --offset 1",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			_, err = call(command.Context(), server, server.groups.CommitOffset, &logv1.CommitOffsetRequest{
				Group: args[0], Topic: topic, Partition: &partition, Offset: &offset,
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "%s continues %s/%d at offset %d\n", args[0], topic, partition, offset)
			return nil
		},
	}
	command.Flags().StringVar(&topic, "topic", "", "the topic")
	command.Flags().Int32Var(&partition, "partition", 0, "the partition")
	command.Flags().Int64Var(&offset, "offset", 0, "the next offset to read")
	requireFlags(command, "topic", "partition", "offset")
	return command
}

func newGroupDelete(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "delete GROUP",
		Short: "Delete a group that has no members, with its committed offsets",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			if _, err := call(command.Context(), server, server.groups.DeleteGroup, &logv1.DeleteGroupRequest{Group: args[0]}); err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "deleted %s\n", args[0])
			return nil
		},
	}
}
