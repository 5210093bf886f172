package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
)

// maxSchema is more than any server takes.
const maxSchema = 4 << 20

var errIncompatible = errors.New("the schema is not compatible")

func newSchema() *cobra.Command {
	flags := &remoteFlags{}
	command := group("schema", "Register schemas, and show and check them")
	flags.register(command)
	command.AddCommand(newSchemaRegister(flags), newSchemaList(flags), newSchemaGet(flags), newSchemaLatest(flags), newSchemaCheck(flags))
	return command
}

// registerLanguage adds the flag that says what a schema is written in.
func registerLanguage(command *cobra.Command) *choice {
	return registerChoice(command, "type", "", "what the schema is written in", "json_schema", "avro", "protobuf")
}

// readSchema reads a file, or standard input when its name is -.
func readSchema(command *cobra.Command, name string) (string, error) {
	in := command.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSchema+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxSchema {
		return "", fmt.Errorf("%s has more than %d bytes", name, maxSchema)
	}
	return string(text), nil
}

func newSchemaRegister(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:     "register SUBJECT FILE",
		Short:   "Add a version to a subject, and show its id",
		Example: "  sluice schema register orders-value order.json",
		Args:    cobra.ExactArgs(2),
	}
	language := registerLanguage(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		text, err := readSchema(command, args[1])
		if err != nil {
			return err
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.schemas.RegisterSchema, &schemav1.RegisterSchemaRequest{
			Subject: args[0], Type: language.value, Schema: text,
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(command.OutOrStdout(), response.GetId())
		return nil
	}
	return command
}

func newSchemaCheck(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "check SUBJECT FILE",
		Short: "Say whether a schema could be registered, and what stands against it",
		Args:  cobra.ExactArgs(2),
	}
	language := registerLanguage(command)
	output := registerChoice(command, "output", "o", "how to show it", "text", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		text, err := readSchema(command, args[1])
		if err != nil {
			return err
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.schemas.CheckSchema, &schemav1.CheckSchemaRequest{
			Subject: args[0], Type: language.value, Schema: text,
		})
		if err != nil {
			return err
		}
		if err := writeCheck(command.OutOrStdout(), response, output.value == "json"); err != nil {
			return err
		}
		if !response.GetCompatible() {
			return errIncompatible
		}
		return nil
	}
	return command
}

func writeCheck(out io.Writer, response *schemav1.CheckSchemaResponse, asJSON bool) error {
	if asJSON {
		return writeJSON(out, struct {
			Compatible bool     `json:"compatible"`
			Messages   []string `json:"messages"`
		}{response.GetCompatible(), append([]string{}, response.GetMessages()...)})
	}
	if response.GetCompatible() {
		fmt.Fprintln(out, "compatible")
	}
	for _, message := range response.GetMessages() {
		fmt.Fprintln(out, message)
	}
	return nil
}

func newSchemaList(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "list",
		Short: "Show the schemas that you may read",
		Args:  cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.schemas.ListSchemas, &schemav1.ListSchemasRequest{})
		if err != nil {
			return err
		}
		if output.value == "json" {
			list := make([]map[string]any, len(response.GetSchemas()))
			for i, s := range response.GetSchemas() {
				list[i] = schemaFields(s)
			}
			return writeJSON(command.OutOrStdout(), map[string]any{"schemas": list})
		}
		var rows [][]string
		for _, s := range response.GetSchemas() {
			rows = append(rows, []string{strconv.Itoa(int(s.GetId())), s.GetSubject(), strconv.Itoa(int(s.GetVersion())), s.GetType()})
		}
		return writeTable(command.OutOrStdout(), []string{"ID", "SUBJECT", "VERSION", "TYPE"}, rows)
	}
	return command
}

func newSchemaGet(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "get ID",
		Short: "Show a schema by its id",
		Args:  cobra.ExactArgs(1),
	}
	output := registerChoice(command, "output", "o", "its text, or all about it", "text", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil {
			return usagef("%q is no id", args[0])
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.schemas.GetSchema, &schemav1.GetSchemaRequest{Id: int32(id)})
		if err != nil {
			return err
		}
		return showSchema(command, output, response.GetSchema())
	}
	return command
}

func newSchemaLatest(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "latest SUBJECT",
		Short: "Show the newest version of a subject",
		Args:  cobra.ExactArgs(1),
	}
	output := registerChoice(command, "output", "o", "its text, or all about it", "text", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.schemas.GetLatestSchema, &schemav1.GetLatestSchemaRequest{Subject: args[0]})
		if err != nil {
			return err
		}
		return showSchema(command, output, response.GetSchema())
	}
	return command
}

func showSchema(command *cobra.Command, output *choice, s *schemav1.Schema) error {
	if output.value == "json" {
		return writeJSON(command.OutOrStdout(), schemaFields(s))
	}
	_, err := fmt.Fprintln(command.OutOrStdout(), strings.TrimSuffix(s.GetSchema(), "\n"))
	return err
}

// schemaFields are a schema as the HTTP API shows it.
func schemaFields(s *schemav1.Schema) map[string]any {
	return map[string]any{
		"id": s.GetId(), "subject": s.GetSubject(), "version": s.GetVersion(), "type": s.GetType(), "schema": s.GetSchema(),
	}
}
