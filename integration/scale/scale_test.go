package scale

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// TestWideTopic: the most partitions that a topic may have work, within bounds
// that only a cost for each partition could break. bench has the figures.
func TestWideTopic(t *testing.T) {
	report := Measure(t, 10_000, 0, 0)
	t.Logf("\n%s", report)
	require.Less(t, report.RSSCreated-report.RSSStart, int64(300<<20))
	require.Less(t, report.RSSRestarted-report.RSSStart, int64(300<<20))
}
