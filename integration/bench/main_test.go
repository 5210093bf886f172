package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestMain(m *testing.M) {
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
