package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

func newTopic() *cobra.Command {
	flags := &remoteFlags{}
	topic := group("topic", "Create, show, configure and delete topics")
	flags.register(topic)
	topic.AddCommand(
		newTopicCreate(flags),
		newTopicList(flags),
		newTopicDescribe(flags),
		newTopicConfig(flags),
		newTopicDelete(flags),
	)
	return topic
}

func newTopicCreate(flags *remoteFlags) *cobra.Command {
	var partitions, replicas int32
	var config []string
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Example: "  sluice topic create orders --partitions 3\n" +
			"  sluice topic create orders --config retention.ms=86400000 --config cleanup.policy=compact",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			request := &logv1.CreateTopicRequest{Name: args[0], Partitions: &partitions}
			if command.Flags().Changed("replication-factor") {
				request.ReplicationFactor = &replicas
			}
			var err error
			if request.Config, err = parseTopicConfig(config); err != nil {
				return err
			}
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			response, err := call(command.Context(), server, server.topics.CreateTopic, request)
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "created %s with %s\n", response.GetName(), count(int(response.GetPartitions()), "partition"))
			return nil
		},
	}
	command.Flags().Int32VarP(&partitions, "partitions", "p", 1, "number of partitions, 1 to 10,000")
	command.Flags().Int32Var(&replicas, "replication-factor", 0, "replicas of each partition; the cluster's default if absent")
	command.Flags().StringArrayVarP(&config, "config", "c", nil, "a config as NAME=VALUE, by its Kafka name (repeatable)")
	return command
}

func newTopicList(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "list",
		Short: "List the topics",
		Args:  cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.topics.ListTopics, &logv1.ListTopicsRequest{})
		if err != nil {
			return err
		}
		if output.value == "json" {
			names := response.GetTopics()
			if names == nil {
				names = []string{}
			}
			return writeJSON(command.OutOrStdout(), map[string][]string{"topics": names})
		}
		for _, name := range response.GetTopics() {
			fmt.Fprintln(command.OutOrStdout(), name)
		}
		return nil
	}
	return command
}

func newTopicDescribe(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:               "describe NAME",
		Short:             "Show a topic's partitions, offsets, sizes and config",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopic(flags),
	}
	output := registerChoice(command, "output", "o", "how to show it", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		topic, err := call(command.Context(), server, server.topics.GetTopic, &logv1.GetTopicRequest{Name: args[0]})
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		if output.value == "json" {
			return writeJSON(out, viewTopic(topic))
		}
		rows := make([][]string, 0, len(topic.GetPartitions()))
		for _, p := range topic.GetPartitions() {
			leader := p.GetLeader()
			if leader == "" {
				leader = "none"
			}
			rows = append(rows, []string{
				strconv.Itoa(int(p.GetId())),
				strconv.FormatInt(p.GetStartOffset(), 10),
				strconv.FormatInt(p.GetEndOffset(), 10),
				strconv.Itoa(int(p.GetSegmentCount())),
				strconv.FormatInt(p.GetSizeBytes(), 10),
				leader,
			})
		}
		if err := writeTable(out, []string{"PARTITION", "START", "END", "SEGMENTS", "BYTES", "LEADER"}, rows); err != nil {
			return err
		}
		for _, p := range topic.GetPartitions() {
			if p.GetState() != "" {
				fmt.Fprintf(out, "partition %d is not sound (%s): %s\n", p.GetId(), p.GetState(), p.GetError())
			}
		}
		fmt.Fprintln(out)
		return writeTopicConfig(out, topic.GetConfig())
	}
	return command
}

func newTopicConfig(flags *remoteFlags) *cobra.Command {
	var set []string
	command := &cobra.Command{
		Use:   "config NAME",
		Short: "Show a topic's config, or change some of it",
		Example: "  sluice topic config orders\n" +
			"  sluice topic config orders --set retention.ms=unlimited --set cleanup.policy=compact",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopic(flags),
	}
	command.Flags().StringArrayVarP(&set, "set", "s", nil, "change a config, as NAME=VALUE by its Kafka name (repeatable)")
	output := registerChoice(command, "output", "o", "how to show it", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		changes, err := parseTopicConfig(set)
		if err != nil {
			return err
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		config, err := resolvedConfig(command.Context(), server, args[0], changes)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), viewTopicConfig(config))
		}
		return writeTopicConfig(command.OutOrStdout(), config)
	}
	return command
}

// resolvedConfig applies changes, if there are any, and returns the config that
// the topic then has.
func resolvedConfig(ctx context.Context, server *remote, name string, changes *logv1.TopicConfig) (*logv1.TopicConfig, error) {
	if changes == nil {
		response, err := call(ctx, server, server.topics.GetTopicConfig, &logv1.GetTopicConfigRequest{Name: name})
		return response.GetConfig(), err
	}
	response, err := call(ctx, server, server.topics.UpdateTopicConfig,
		&logv1.UpdateTopicConfigRequest{Name: name, Config: changes})
	return response.GetConfig(), err
}

func newTopicDelete(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a topic and its data",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopic(flags),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			response, err := call(command.Context(), server, server.topics.DeleteTopic, &logv1.DeleteTopicRequest{Name: args[0]})
			if err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "deleted %s with %s\n", response.GetName(), count(int(response.GetPartitions()), "partition"))
			return nil
		},
	}
}

// completeTopic completes the first argument with the server's topics. A shell
// waits for the answer, so it is given little time.
func completeTopic(flags *remoteFlags) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		server, err := flags.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer server.close()
		server.timeout = min(server.timeout, time.Second)
		ctx := command.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		response, err := call(ctx, server, server.topics.ListTopics, &logv1.ListTopicsRequest{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return response.GetTopics(), cobra.ShellCompDirectiveNoFileComp
	}
}

// count writes a number with what it counts, in the plural where that is due.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
