package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
	}
	output := registerChoice(command, "output", "o", "how to show it", "text", "json")
	command.RunE = func(command *cobra.Command, _ []string) error {
		version := readVersion()
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), version)
		}
		fmt.Fprintln(command.OutOrStdout(), version)
		return nil
	}
	return command
}

// version is what the build noted about itself.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion() version {
	v := version{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

func (v version) String() string {
	text := "sluice " + v.Version
	if v.Commit != "" {
		text += " " + v.Commit[:min(12, len(v.Commit))]
	}
	if v.Modified {
		text += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s", text, v.Go, v.Platform)
}
