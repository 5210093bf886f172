package lint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport is the table of docs/architecture.md: for each module, the modules
// of ours that it may import. A module may always import itself.
var mayImport = map[string][]string{
	"gen":                  {},
	"services/kit":         {"gen"},
	"services/storage":     {"gen", "services/kit"},
	"services/coordinator": {"gen", "services/kit"},
	"services/registry":    {"gen", "services/kit"},
	"services/gateway":     {"gen", "services/kit"},
	"services/sluice": {
		"gen", "services/kit", "client",
		"services/storage", "services/coordinator", "services/registry", "services/gateway",
	},
	"client": {},
	"integration": {
		"gen", "services/kit", "client", "tools",
		"services/storage", "services/coordinator", "services/registry", "services/gateway", "services/sluice",
	},
	"tools": {},
}

// services show their root package and nothing else.
var services = []string{"services/storage", "services/coordinator", "services/registry", "services/gateway"}

// linkedBy says which programs may link what is large or somebody else's
// business. A service that begins to is no longer built of what it needs.
var linkedBy = map[string][]string{
	"go.etcd.io/raft/v3":                                {"services/storage"},
	"go.etcd.io/etcd/server/v3":                         {},
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime": {"services/gateway"},
	root + "gen/gw":                                     {"services/gateway"},
	"github.com/minio/minio-go/v7":                      {},
	"github.com/spf13/cobra":                            {},
	"github.com/stretchr/testify":                       {},
}

func TestDependenciesPointOneWay(t *testing.T) {
	packages := goList(t, "work")
	modules := map[string]bool{}
	for _, p := range packages {
		modules[p.module()] = true
	}
	for _, p := range packages {
		from := p.module()
		allowed, known := mayImport[from]
		require.True(t, known, "module %s is not in the table", from)
		for _, imported := range p.imports() {
			if !strings.HasPrefix(imported, root) {
				continue
			}
			to := moduleOf(strings.TrimPrefix(imported, root), modules)
			if to != from && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s may import %v of ours (docs/architecture.md)", p.ImportPath, imported, from, allowed)
			}
			if to != from && slices.Contains(services, to) && imported != root+to {
				t.Errorf("%s imports %s: only the root package of %s may be", p.ImportPath, imported, to)
			}
		}
	}
}

// moduleOf returns the module of a package by its path without root.
func moduleOf(path string, modules map[string]bool) string {
	for path != "." && !modules[path] {
		path = filepath.Dir(path)
	}
	return path
}

func TestServicesLinkOnlyWhatTheyNeed(t *testing.T) {
	for _, service := range services {
		for _, p := range goList(t, "-deps", "./"+service) {
			for forbidden, allowed := range linkedBy {
				within := p.ImportPath == forbidden || strings.HasPrefix(p.ImportPath, forbidden+"/")
				if within && !slices.Contains(allowed, service) {
					t.Errorf("%s links %s", service, p.ImportPath)
				}
			}
		}
	}
}

func TestEveryModuleIsInTheTable(t *testing.T) {
	var work struct {
		Use []struct{ DiskPath string }
	}
	cmd := exec.CommandContext(t.Context(), "go", "work", "edit", "-json")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &work))
	var used []string
	for _, use := range work.Use {
		used = append(used, strings.TrimPrefix(use.DiskPath, "./"))
	}

	document, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	var documented []string
	row := regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\|")
	parts, _, found := strings.Cut(string(document), "\n## A service is a value")
	require.True(t, found)
	for _, match := range row.FindAllStringSubmatch(parts, -1) {
		documented = append(documented, match[1])
	}

	var ruled []string
	for module := range mayImport {
		ruled = append(ruled, module)
	}
	require.ElementsMatch(t, used, ruled, "go.work and the rules of this test")
	require.ElementsMatch(t, used, documented, "go.work and docs/architecture.md")
}
