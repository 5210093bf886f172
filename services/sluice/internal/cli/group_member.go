package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// assignedPartition is a partition of a member, as JSON shows it.
type assignedPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// memberView is a membership, as JSON shows it.
type memberView struct {
	MemberID   string              `json:"member_id"`
	Generation int64               `json:"generation"`
	Assignment []assignedPartition `json:"assignment"`
}

func newMemberView(id string, generation int64, assignment []*logv1.TopicPartition) memberView {
	v := memberView{MemberID: id, Generation: generation, Assignment: []assignedPartition{}}
	for _, p := range assignment {
		v.Assignment = append(v.Assignment, assignedPartition{Topic: p.GetTopic(), Partition: p.GetPartition()})
	}
	return v
}

func (v memberView) write(out io.Writer, format string) error {
	if format == "json" {
		return writeJSON(out, v)
	}
	fmt.Fprintf(out, "member %s, generation %d\n\n", v.MemberID, v.Generation)
	var rows [][]string
	for _, p := range v.Assignment {
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition))})
	}
	return writeTable(out, []string{"TOPIC", "PARTITION"}, rows)
}

func newGroupJoin(flags *remoteFlags) *cobra.Command {
	var topics []string
	var member string
	command := &cobra.Command{
		Use:   "join GROUP",
		Short: "Become a member of a group, or change what one reads",
		Long: "Become a member of a group and show its partitions. The member stays for as\n" +
			"long as it sends heartbeats (see group heartbeat).",
		Example: "  sluice group join analytics --topic orders --topic billing",
		Args:    cobra.ExactArgs(1),
	}
	output := registerChoice(command, "output", "o", "how to show it", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		request := &logv1.JoinGroupRequest{Group: args[0], Topics: topics}
		if command.Flags().Changed("member") {
			request.MemberId = &member
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		got, err := call(command.Context(), server, server.groups.JoinGroup, request)
		if err != nil {
			return err
		}
		return newMemberView(got.GetMemberId(), got.GetGeneration(), got.GetAssignment()).write(command.OutOrStdout(), output.value)
	}
	command.Flags().StringArrayVar(&topics, "topic", nil, "a topic to read; repeat it for more")
	command.Flags().StringVar(&member, "member", "", "id of a member, to join again or to change its topics")
	requireFlags(command, "topic")
	return command
}

func newGroupAssignment(flags *remoteFlags) *cobra.Command {
	var member string
	command := &cobra.Command{
		Use:   "assignment GROUP",
		Short: "Show the partitions of a member",
		Args:  cobra.ExactArgs(1),
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		got, err := call(command.Context(), server, server.groups.GetAssignment, &logv1.GetAssignmentRequest{
			Group: args[0], MemberId: member,
		})
		if err != nil {
			return err
		}
		return newMemberView(member, got.GetGeneration(), got.GetAssignment()).write(command.OutOrStdout(), output.value)
	}
	registerMember(command, &member)
	return command
}

func newGroupHeartbeat(flags *remoteFlags) *cobra.Command {
	var member string
	var generation int64
	command := &cobra.Command{
		Use:   "heartbeat GROUP",
		Short: "Keep a member in its group once, and show whether it has to rebalance",
		Args:  cobra.ExactArgs(1),
	}
	output := registerChoice(command, "output", "o", "how to show it", "text", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		got, err := call(command.Context(), server, server.groups.Heartbeat, &logv1.HeartbeatRequest{
			Group: args[0], MemberId: member, Generation: &generation,
		})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), struct {
				Status            string `json:"status"`
				Generation        *int64 `json:"generation,omitempty"`
				CurrentGeneration *int64 `json:"current_generation,omitempty"`
			}{got.GetStatus(), got.Generation, got.CurrentGeneration})
		}
		// Either of them is set.
		current := got.GetGeneration() + got.GetCurrentGeneration()
		fmt.Fprintf(command.OutOrStdout(), "%s, generation %d\n", got.GetStatus(), current)
		return nil
	}
	command.Flags().Int64Var(&generation, "generation", 0, "the generation that the member works on")
	registerMember(command, &member)
	requireFlags(command, "generation")
	return command
}

func newGroupLeave(flags *remoteFlags) *cobra.Command {
	var member string
	command := &cobra.Command{
		Use:   "leave GROUP",
		Short: "Take a member out of a group",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			_, err = call(command.Context(), server, server.groups.LeaveGroup, &logv1.LeaveGroupRequest{Group: args[0], MemberId: member})
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "%s is no member of %s\n", member, args[0])
			return nil
		},
	}
	registerMember(command, &member)
	return command
}

func registerMember(command *cobra.Command, member *string) {
	command.Flags().StringVar(member, "member", "", "id of the member")
	requireFlags(command, "member")
}

// requireFlags makes flags of a command required.
func requireFlags(command *cobra.Command, names ...string) {
	for _, name := range names {
		// It fails only for a flag that is not there.
		_ = command.MarkFlagRequired(name)
	}
}
