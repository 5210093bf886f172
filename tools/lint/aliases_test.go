package lint

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// generated matches the packages that have one name in all of our code: logv1
// for gen/go/sluice/log/v1.
var generated = regexp.MustCompile(`^` + regexp.QuoteMeta(root) + `gen/go/sluice/(\w+)/(v\w+)$`)

func TestGeneratedPackagesHaveOneName(t *testing.T) {
	for _, p := range goList(t, "work") {
		if p.module() == "gen" {
			continue
		}
		for _, files := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
			for _, name := range files {
				checkAliases(t, filepath.Join(p.Dir, name))
			}
		}
	}
}

func checkAliases(t *testing.T, path string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		match := generated.FindStringSubmatch(imported)
		if match == nil {
			continue
		}
		want := match[1] + match[2]
		if spec.Name == nil || spec.Name.Name != want && spec.Name.Name != "_" {
			t.Errorf("%s: import %s as %s", set.Position(spec.Pos()), imported, want)
		}
	}
}
