package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/services/kit/headroom"
)

func TestMain(m *testing.M) {
	// As the process has it that the engine is a part of.
	headroom.Keep(headroom.OfService)
	status := cluster.Main(m)
	if text := results.Markdown(); text != "" {
		fmt.Printf("\n%s\n", text)
		if path := os.Getenv("BENCH_OUT"); path != "" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				fmt.Fprintln(os.Stderr, err)
				status = 1
			}
		}
	}
	os.Exit(status)
}
