package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayStart are the files of services that start goroutines by themselves, and why a
// panic there is no matter. All others go by kit/confine or kit/life.
var mayStart = map[string]string{
	"services/kit/confine/confine.go":            "is what confines panics",
	"services/kit/confine/fan.go":                "is what confines panics",
	"services/kit/life/group.go":                 "confines what its members do",
	"services/kit/life/signal.go":                "waits for signals",
	"services/kit/rpc/server.go":                 "grpc-go's own loop",
	"services/kit/rpc/local_stream.go":           "the guard recovers within",
	"services/kit/blob/s3/put.go":                "catches within",
	"services/gateway/internal/budget/budget.go": "looks at calls and cuts connections off",
	"services/storage/internal/cold/cache.go":    "catches within",
	"services/storage/internal/node/node.go":     "awaits what the partitions' owners do, who recover",
	"services/storage/internal/node/pool.go":     "the partitions' owners recover",
	"services/storage/internal/node/upkeep.go":   "passes recover within",
	"services/storage/internal/rpc/producers.go": "awaits what the partitions' owners do, who recover",
	"services/sluice/internal/stack/stack.go":    "catches within",
}

// TestGoroutinesAreConfined: a goroutine of a service is started by what says what a
// panic in it ends; a go statement, or the Go of a sync.WaitGroup or an errgroup, which
// take nothing but a function, would have it end the process. The client commands
// are processes of one request.
func TestGoroutinesAreConfined(t *testing.T) {
	started := make(map[string]bool)
	for _, p := range goList(t, "work") {
		if !strings.HasPrefix(p.module(), "services/") || strings.HasSuffix(p.ImportPath, "/sluice/internal/cli") || isForTests(p.ImportPath) {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			file := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, root)+"/"+name, "/"))
			for _, at := range startsIn(t, path) {
				started[file] = true
				if mayStart[file] == "" {
					t.Errorf("%s: start goroutines with kit/confine or kit/life, which say what a panic ends", at)
				}
			}
		}
	}
	for file := range mayStart {
		require.True(t, started[file], "%s starts none any more", file)
	}
}

// isForTests says whether a package is imported by tests alone.
func isForTests(path string) bool {
	last := path[strings.LastIndex(path, "/")+1:]
	return strings.HasSuffix(last, "test")
}

// startsIn returns where a file starts goroutines.
func startsIn(t *testing.T, path string) (at []token.Position) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = append(at, set.Position(n.Pos()))
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Go" && len(n.Args) == 1 {
				at = append(at, set.Position(n.Pos()))
			}
		}
		return true
	})
	return at
}
