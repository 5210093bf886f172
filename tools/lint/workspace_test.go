package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is what every import path of ours begins with.
const root = "github.com/sluiceio/sluice/"

// goPackage is what the tests need of "go list -json".
type goPackage struct {
	ImportPath   string
	Dir          string
	Standard     bool
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path string }
}

// module returns the module of a package of ours without root, "" for any other.
func (p goPackage) module() string {
	if p.Module == nil || !strings.HasPrefix(p.Module.Path, root) {
		return ""
	}
	return strings.TrimPrefix(p.Module.Path, root)
}

// imports returns all imports, those of tests too.
func (p goPackage) imports() []string {
	return append(append(append([]string{}, p.Imports...), p.TestImports...), p.XTestImports...)
}

// goList returns the packages that "go list" names for the arguments.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var packages []goPackage
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}
