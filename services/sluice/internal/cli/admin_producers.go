package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newAdminProducers(flags *remoteFlags) *cobra.Command {
	command := group("producers", "List and forget idempotent producers")
	command.AddCommand(newAdminProducersList(flags), newAdminProducersDelete(flags))
	return command
}

func newAdminProducersList(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "list",
		Short: "List the idempotent producers and their sequences",
		Args:  cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.admin.ListProducers, &adminv1.ListProducersRequest{})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), viewProducers(response))
		}
		var rows [][]string
		for _, p := range response.GetProducers() {
			who := []string{p.GetProducerId(), p.GetOwner(), time.UnixMilli(p.GetLastUsedMs()).UTC().Format(time.RFC3339)}
			for _, at := range p.GetPartitions() {
				rows = append(rows, append(who[:len(who):len(who)],
					at.GetTopic(), strconv.Itoa(int(at.GetPartition())),
					strconv.FormatInt(at.GetLastSequence(), 10), strconv.FormatInt(at.GetLastOffset(), 10)))
			}
			if len(p.GetPartitions()) == 0 {
				rows = append(rows, append(who, "-", "-", "-", "-"))
			}
		}
		return writeTable(command.OutOrStdout(),
			[]string{"PRODUCER", "OWNER", "LAST USED", "TOPIC", "PARTITION", "SEQUENCE", "OFFSET"}, rows)
	}
	return command
}

func newAdminProducersDelete(flags *remoteFlags) *cobra.Command {
	var owner string
	command := &cobra.Command{
		Use:   "delete PRODUCER",
		Short: "Forget a producer's state",
		Long: "Forget a producer's state: its next sequence may be any, and what it sends again\n" +
			"is written again.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			request := &adminv1.DeleteProducerRequest{ProducerId: args[0]}
			if command.Flags().Changed("owner") {
				request.Owner = &owner
			}
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			if _, err := call(command.Context(), server, server.admin.DeleteProducer, request); err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "forgot producer %s\n", args[0])
			return nil
		},
	}
	command.Flags().StringVar(&owner, "owner", "", "id of the key that owns it, where several keys have one of that name")
	return command
}

type producersView struct {
	Producers []producerView `json:"producers"`
}

type producerView struct {
	ProducerID string                  `json:"producer_id"`
	Owner      string                  `json:"owner"`
	LastUsedMs int64                   `json:"last_used_ms"`
	Partitions []producerPartitionView `json:"partitions"`
}

type producerPartitionView struct {
	Topic        string `json:"topic"`
	Partition    int32  `json:"partition"`
	LastSequence int64  `json:"last_sequence"`
	LastOffset   int64  `json:"last_offset"`
}

// viewProducers is what the REST door shows.
func viewProducers(response *adminv1.ListProducersResponse) producersView {
	view := producersView{Producers: make([]producerView, 0, len(response.GetProducers()))}
	for _, p := range response.GetProducers() {
		producer := producerView{
			ProducerID: p.GetProducerId(), Owner: p.GetOwner(), LastUsedMs: p.GetLastUsedMs(),
			Partitions: make([]producerPartitionView, 0, len(p.GetPartitions())),
		}
		for _, at := range p.GetPartitions() {
			producer.Partitions = append(producer.Partitions, producerPartitionView{
				Topic: at.GetTopic(), Partition: at.GetPartition(), LastSequence: at.GetLastSequence(), LastOffset: at.GetLastOffset(),
			})
		}
		view.Producers = append(view.Producers, producer)
	}
	return view
}
