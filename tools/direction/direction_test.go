package direction

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "github.com/sluiceio/sluice/"

// mayImport says which of our packages the packages below a path may import,
// beside those below the same path. The longest path that fits counts. What is
// not listed may import nothing of ours.
var mayImport = map[string][]string{
	"gen":                  {},
	"services/kit":         {"gen"},
	"services/storage":     {"gen", "services/kit"},
	"services/coordinator": {"gen", "services/kit"},
	"services/registry":    {"gen", "services/kit"},
	"services/gateway":     {"gen", "services/kit"},
	"services/sluice": {
		"gen", "services/kit",
		"services/storage", "services/coordinator", "services/registry", "services/gateway",
	},
	"client":         {},
	"client/conn":    {},
	"client/batch":   {},
	"client/meta":    {"client/conn"},
	"client/admin":   {"client/conn", "client/meta"},
	"client/read":    {"client/conn", "client/meta", "client/batch"},
	"client/produce": {"client/conn", "client/meta", "client/batch"},
	"client/consume": {"client/conn", "client/meta", "client/batch", "client/read"},
	"integration":    {"gen", "services", "client"},
	"tools":          {},
}

func TestDependenciesPointOneWay(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}}{{range .Imports}} {{.}}{{end}}{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}`, "work")
	printed, err := list.Output()
	require.NoError(t, err)
	packages := 0
	for line := range strings.Lines(string(printed)) {
		imports := strings.Fields(line)
		from, ours := strings.CutPrefix(imports[0], root)
		require.True(t, ours, imports[0])
		packages++
		for _, imported := range imports[1:] {
			if to, ours := strings.CutPrefix(imported, root); ours && !allowed(from, to) {
				t.Errorf("%s must not import %s", from, to)
			}
		}
	}
	require.Greater(t, packages, 20, "go list found the workspace")
}

func TestTheRuleFindsWhatIsWrong(t *testing.T) {
	for _, wrong := range [][2]string{
		{"gen/go/sluice/log/v1", "services/kit/errs"},
		{"services/kit/errs", "services/storage"},
		{"services/storage/internal/node", "services/coordinator"},
		{"services/gateway", "services/storage"},
		{"client/conn", "client/meta"},
		{"client/meta", "gen/go/sluice/log/v1"},
		{"client/produce", "client/consume"},
		{"tools/openapi", "gen/go/sluice/log/v1"},
		{"somewhere/else", "gen/go/sluice/log/v1"},
		{"services/kitchen", "gen/go/sluice/log/v1"},
	} {
		require.False(t, allowed(wrong[0], wrong[1]), wrong)
	}
	for _, right := range [][2]string{
		{"services/kit/errs", "services/kit/obs"},
		{"services/sluice/internal/cli", "services/storage"},
		{"client/consume", "client/read"},
		{"integration/bench", "services/storage"},
	} {
		require.True(t, allowed(right[0], right[1]), right)
	}
}

// allowed reports whether the package from may import the package to.
func allowed(from, to string) bool {
	place := ""
	for candidate := range mayImport {
		if below(from, candidate) && len(candidate) > len(place) {
			place = candidate
		}
	}
	if place == "" {
		return false
	}
	return below(to, place) || slices.ContainsFunc(mayImport[place], func(path string) bool { return below(to, path) })
}

func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
