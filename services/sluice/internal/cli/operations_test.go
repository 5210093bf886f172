package cli

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite what a test keeps in the documentation")

// TestOperationsListsEveryOption keeps the table of options in
// docs/operations.md as the program has them.
func TestOperationsListsEveryOption(t *testing.T) {
	const path = "../../../../docs/operations.md"
	const begin, end = "<!-- options begin -->\n", "<!-- options end -->\n"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found)

	want := optionsTable(newServe())
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o600))
		return
	}
	require.Equal(t, want, table, "go test ./services/sluice/internal/cli -run TestOperations -update")
}

// A rule about a series that is called otherwise never fires.
func TestAlertsAreAboutDocumentedSeries(t *testing.T) {
	rules, err := os.ReadFile("../../../../deploy/alerts.yaml")
	require.NoError(t, err)
	documented, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	series := regexp.MustCompile(`\b(sluice|es)_[a-z_]+`).FindAllString(string(rules), -1)
	require.NotEmpty(t, series)
	for _, name := range series {
		require.Contains(t, string(documented), "`"+name+"`")
	}
}

func optionsTable(command *cobra.Command) string {
	var table strings.Builder
	table.WriteString("| option | default | |\n|---|---|---|\n")
	command.Flags().VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if value != "" {
			name += " " + value
		}
		def := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			def = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", name, def, strings.ReplaceAll(usage, "|", "\\|"))
	})
	return table.String()
}
