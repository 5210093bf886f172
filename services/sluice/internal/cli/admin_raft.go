package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newAdminRaft(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "raft",
		Short: "Show role, term, leader and replication of every Raft partition",
		Long: "Show role, term, leader and replication of every Raft partition, the system's\n" +
			"own too, as each node sees it. A node that does not answer is left out.",
		Args: cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.admin.GetRaft, &adminv1.GetRaftRequest{})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), viewRaft(response))
		}
		rows := make([][]string, 0, len(response.GetPartitions()))
		for _, p := range response.GetPartitions() {
			leader := p.GetLeader()
			if leader == "" {
				leader = "none"
			}
			rows = append(rows, []string{
				p.GetTopic(),
				strconv.Itoa(int(p.GetPartition())),
				p.GetNode(),
				p.GetRole(),
				strconv.FormatInt(p.GetTerm(), 10),
				leader,
				strconv.FormatInt(p.GetCommitIndex(), 10),
				strconv.FormatInt(p.GetLastIndex(), 10),
				replication(p.GetReplicas()),
			})
		}
		if err := writeTable(command.OutOrStdout(),
			[]string{"TOPIC", "PARTITION", "NODE", "ROLE", "TERM", "LEADER", "COMMIT", "LAST", "REPLICAS"}, rows); err != nil {
			return err
		}
		for _, p := range response.GetPartitions() {
			if p.GetError() != "" {
				fmt.Fprintf(command.OutOrStdout(), "%s/%d: %s\n", p.GetTopic(), p.GetPartition(), p.GetError())
			}
		}
		return nil
	}
	return command
}

// replication says how far each replica is, and in what state unless all is well.
func replication(replicas []*adminv1.RaftReplica) string {
	if len(replicas) == 0 {
		return "-"
	}
	all := make([]string, 0, len(replicas))
	for _, r := range replicas {
		one := r.GetNode() + ":" + strconv.FormatInt(r.GetMatchIndex(), 10)
		if state := r.GetState(); state != "" && state != "replicate" {
			one += ":" + state
		}
		all = append(all, one)
	}
	return strings.Join(all, " ")
}

type raftView struct {
	Partitions []raftPartitionView `json:"partitions"`
}

type raftPartitionView struct {
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Node        string            `json:"node"`
	Role        string            `json:"role"`
	Term        int64             `json:"term"`
	Leader      string            `json:"leader"`
	CommitIndex int64             `json:"commit_index"`
	LastIndex   int64             `json:"last_index"`
	Replicas    []raftReplicaView `json:"replicas"`
	Error       string            `json:"error,omitempty"`
}

type raftReplicaView struct {
	Node       string `json:"node"`
	Role       string `json:"role"`
	MatchIndex int64  `json:"match_index"`
	NextIndex  int64  `json:"next_index"`
	State      string `json:"state"`
}

// viewRaft is what the REST door shows.
func viewRaft(response *adminv1.GetRaftResponse) raftView {
	view := raftView{Partitions: make([]raftPartitionView, 0, len(response.GetPartitions()))}
	for _, p := range response.GetPartitions() {
		partition := raftPartitionView{
			Topic: p.GetTopic(), Partition: p.GetPartition(), Node: p.GetNode(), Role: p.GetRole(), Term: p.GetTerm(),
			Leader: p.GetLeader(), CommitIndex: p.GetCommitIndex(), LastIndex: p.GetLastIndex(), Error: p.GetError(),
			Replicas: make([]raftReplicaView, 0, len(p.GetReplicas())),
		}
		for _, r := range p.GetReplicas() {
			partition.Replicas = append(partition.Replicas, raftReplicaView{
				Node: r.GetNode(), Role: r.GetRole(), MatchIndex: r.GetMatchIndex(), NextIndex: r.GetNextIndex(), State: r.GetState(),
			})
		}
		view.Partitions = append(view.Partitions, partition)
	}
	return view
}
