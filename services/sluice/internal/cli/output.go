package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(value string) error {
	for _, allowed := range c.allowed {
		if value == allowed {
			c.value = value
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
}

// registerChoice adds a flag whose first allowed word is the default.
func registerChoice(command *cobra.Command, name, short, usage string, allowed ...string) *choice {
	c := &choice{value: allowed[0], allowed: allowed}
	command.Flags().VarP(c, name, short, usage)
	// It fails only for a flag that is unknown or has a completion already.
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeTable writes rows under their headings, in columns.
func writeTable(out io.Writer, headings []string, rows [][]string) error {
	columns := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{headings}, rows...) {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	return columns.Flush()
}
