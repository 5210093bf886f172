package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newAdminNodes(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes of the cluster, and those that are away and have replicas",
		Args:  cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.admin.ListNodes, &adminv1.ListNodesRequest{})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), viewNodes(response))
		}
		rows := make([][]string, 0, len(response.GetNodes()))
		for _, n := range response.GetNodes() {
			rows = append(rows, []string{
				n.GetId(), nodeState(n), orNone(strings.Join(n.GetRoles(), ",")), orNone(n.GetRack()),
				strconv.FormatInt(n.GetReplicas(), 10), strconv.FormatInt(n.GetDeletingTopics(), 10),
			})
		}
		return writeTable(command.OutOrStdout(), []string{"NODE", "STATE", "ROLES", "RACK", "REPLICAS", "DELETING"}, rows)
	}
	return command
}

func nodeState(n *adminv1.Node) string {
	switch {
	case n.GetLive():
		return "live"
	case n.GetForgotten():
		return "forgotten"
	}
	return "away"
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newAdminForgetNode(flags *remoteFlags) *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use:   "forget-node NODE",
		Short: "Give up a node that will not return",
		Long: "Give up a node that will not return: the deletion of topics does not wait for it any\n" +
			"more, and no process of its id is let into the cluster again. The node must be\n" +
			"stopped. Partitions of which it has the only replica are given up with --force\n" +
			"alone; their topics stay until you delete them.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			response, err := call(command.Context(), server, server.admin.ForgetNode, &adminv1.ForgetNodeRequest{NodeId: args[0], Force: force})
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "forgot node %s\n", args[0])
			for _, topic := range response.GetLostTopics() {
				fmt.Fprintf(command.OutOrStdout(), "%s has lost partitions\n", topic)
			}
			return nil
		},
	}
	command.Flags().BoolVar(&force, "force", false, "give up partitions of which the node has the only replica")
	return command
}

type nodesView struct {
	Nodes []nodeView `json:"nodes"`
}

type nodeView struct {
	ID             string   `json:"id"`
	Live           bool     `json:"live"`
	Forgotten      bool     `json:"forgotten"`
	Roles          []string `json:"roles"`
	Rack           string   `json:"rack"`
	Replicas       int64    `json:"replicas"`
	DeletingTopics int64    `json:"deleting_topics"`
}

// viewNodes is what the REST door shows.
func viewNodes(response *adminv1.ListNodesResponse) nodesView {
	view := nodesView{Nodes: make([]nodeView, 0, len(response.GetNodes()))}
	for _, n := range response.GetNodes() {
		view.Nodes = append(view.Nodes, nodeView{
			ID: n.GetId(), Live: n.GetLive(), Forgotten: n.GetForgotten(), Roles: append([]string{}, n.GetRoles()...), Rack: n.GetRack(),
			Replicas: n.GetReplicas(), DeletingTopics: n.GetDeletingTopics(),
		})
	}
	return view
}
