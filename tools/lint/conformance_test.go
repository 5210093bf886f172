package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// top is the folder of the repository.
const top = "../.."

var (
	// A package in backquotes, or the name of a test.
	inHeldBy = regexp.MustCompile("`([a-z/]+)`|\\b((?:Test|Fuzz)\\w+)")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// TestDocumentsNameTests: each test that docs/conformance.md and docs/lessons.md
// name is in the package that stands before it, so that none is renamed away.
func TestDocumentsNameTests(t *testing.T) {
	for document, atLeast := range map[string]int{"conformance.md": 100, "lessons.md": 50} {
		t.Run(document, func(t *testing.T) { require.Greater(t, namedIn(t, document), atLeast, "the tables are read") })
	}
}

// namedIn returns how many tests the tables of a document name.
func namedIn(t *testing.T, document string) (named int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "docs", document))
	require.NoError(t, err)
	known := make(map[string]map[string]bool)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if len(cells) != 4 {
			continue
		}
		name := ""
		for _, m := range inHeldBy.FindAllStringSubmatch(cells[2], -1) {
			if m[1] != "" {
				name = m[1]
				continue
			}
			if known[name] == nil {
				known[name] = testsOf(t, name)
			}
			require.True(t, known[name][m[2]], "%s has no %s: %s", name, m[2], line)
			named++
		}
	}
	return named
}

// testsOf returns the names of a package's tests. A service's package goes by the
// service's name, and those within by what follows internal/.
func testsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	service, within, _ := strings.Cut(name, "/")
	found := make(map[string]bool)
	for _, folder := range []string{
		name, filepath.Join("services", name), filepath.Join("services", service, "internal", within),
	} {
		files, err := filepath.Glob(filepath.Join(top, folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range testFunc.FindAllSubmatch(source, -1) {
				found[string(m[1])] = true
			}
		}
	}
	require.NotEmpty(t, found, "a document names a package %q without tests", name)
	return found
}
