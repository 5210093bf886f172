package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newKey() *cobra.Command {
	flags := &remoteFlags{}
	command := group("key", "Make, list and revoke API keys")
	flags.register(command)
	command.AddCommand(newKeyCreate(flags), newKeyList(flags), newKeyRevoke(flags))
	return command
}

func newKeyCreate(flags *remoteFlags) *cobra.Command {
	var read, write []string
	var admin bool
	var produce, consume int64
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a key and show its secret, this once",
		Long: "Makes a key and shows its secret, which nobody can show again. The secret alone\n" +
			"goes to standard output, so that it can be put where it belongs.\n\n" +
			"A prefix covers the topic of that name and those below it, which begin after\n" +
			"'.', '-' or '_'; '*' covers every topic.",
		Example: "  sluice key create orders-writer --write orders > orders-writer.key\n" +
			"  sluice key create reports --read orders --read billing. --consume-bytes-per-sec 10485760\n" +
			"  sluice key create operator --admin",
		Args: cobra.ExactArgs(1),
	}
	f := command.Flags()
	f.StringArrayVar(&read, "read", nil, "may read the topics of this `prefix` (repeatable)")
	f.StringArrayVar(&write, "write", nil, "may write and read the topics of this `prefix` (repeatable)")
	f.BoolVar(&admin, "admin", false, "may do everything")
	f.Int64Var(&produce, "produce-bytes-per-sec", 0, "`bytes` that it may write in a second; any number if absent")
	f.Int64Var(&consume, "consume-bytes-per-sec", 0, "`bytes` that it may read in a second; any number if absent")
	output := registerChoice(command, "output", "o", "how to show it", "text", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		request := &adminv1.CreateKeyRequest{Name: args[0]}
		grant := func(action string, prefixes ...string) {
			for _, prefix := range prefixes {
				request.Acls = append(request.Acls, &adminv1.Acl{Action: action, TopicPrefix: prefix})
			}
		}
		grant("read", read...)
		grant("write", write...)
		if admin {
			grant("admin", "*")
		}
		if len(request.GetAcls()) == 0 {
			return usagef("give --read, --write or --admin: a key without any may do nothing")
		}
		if command.Flags().Changed("produce-bytes-per-sec") {
			request.ProduceBytesPerSec = &produce
		}
		if command.Flags().Changed("consume-bytes-per-sec") {
			request.ConsumeBytesPerSec = &consume
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.keys.CreateKey, request)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), map[string]any{"key": viewKey(response.GetKey()), "secret": response.GetSecret()})
		}
		fmt.Fprintf(command.ErrOrStderr(), "made %s, %s; this is its secret:\n", response.GetKey().GetKeyId(), args[0])
		fmt.Fprintln(command.OutOrStdout(), response.GetSecret())
		return nil
	}
	return command
}

func newKeyList(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "list",
		Short: "List all keys, revoked ones too, without their secrets",
		Args:  cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.keys.ListKeys, &adminv1.ListKeysRequest{})
		if err != nil {
			return err
		}
		if output.value == "json" {
			keys := make([]keyView, len(response.GetKeys()))
			for i, key := range response.GetKeys() {
				keys[i] = viewKey(key)
			}
			return writeJSON(command.OutOrStdout(), map[string]any{"keys": keys})
		}
		var rows [][]string
		for _, key := range response.GetKeys() {
			rows = append(rows, keyRow(key))
		}
		return writeTable(command.OutOrStdout(), []string{"KEY", "NAME", "GRANTS", "PRODUCE/S", "CONSUME/S", "CREATED", "STATE"}, rows)
	}
	return command
}

func newKeyRevoke(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY-ID",
		Short: "End a key, at once and everywhere",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			server, err := flags.dial()
			if err != nil {
				return err
			}
			defer server.close()
			if _, err := call(command.Context(), server, server.keys.DeleteKey, &adminv1.DeleteKeyRequest{KeyId: args[0]}); err != nil {
				return err
			}
			fmt.Fprintf(command.OutOrStdout(), "revoked %s\n", args[0])
			return nil
		},
	}
}

// keyView is a key in JSON, as the HTTP API has it.
type keyView struct {
	KeyID   string    `json:"key_id"`
	Name    string    `json:"name"`
	ACLs    []aclView `json:"acls"`
	Produce *int64    `json:"produce_bytes_per_sec"`
	Consume *int64    `json:"consume_bytes_per_sec"`
	Created int64     `json:"created_at_ms"`
	Revoked bool      `json:"disabled"`
}

type aclView struct {
	Action      string `json:"action"`
	TopicPrefix string `json:"topic_prefix"`
}

func viewKey(key *adminv1.Key) keyView {
	view := keyView{
		KeyID: key.GetKeyId(), Name: key.GetName(), ACLs: make([]aclView, len(key.GetAcls())),
		Produce: key.ProduceBytesPerSec, Consume: key.ConsumeBytesPerSec,
		Created: key.GetCreatedAtMs(), Revoked: key.GetDisabled(),
	}
	for i, acl := range key.GetAcls() {
		view.ACLs[i] = aclView{acl.GetAction(), acl.GetTopicPrefix()}
	}
	return view
}

func keyRow(key *adminv1.Key) []string {
	grants := make([]string, len(key.GetAcls()))
	for i, acl := range key.GetAcls() {
		grants[i] = acl.GetAction() + ":" + acl.GetTopicPrefix()
	}
	state := "valid"
	if key.GetDisabled() {
		state = "revoked"
	}
	quota := func(bytes *int64) string {
		if bytes == nil {
			return "unlimited"
		}
		return strconv.FormatInt(*bytes, 10)
	}
	return []string{
		key.GetKeyId(), key.GetName(), strings.Join(grants, " "), quota(key.ProduceBytesPerSec), quota(key.ConsumeBytesPerSec),
		time.UnixMilli(key.GetCreatedAtMs()).UTC().Format(time.RFC3339), state,
	}
}
