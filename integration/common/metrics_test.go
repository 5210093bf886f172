package common

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestMetrics(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, session)
		answer, err := api.Do(t.Context(), "GET", "/metrics", nil)
		require.NoError(t, err)
		require.Equal(t, 200, answer.Status)
		got := series(string(answer.Body))
		for _, want := range []string{
			`es_partition_start_offset{partition="0",topic="orders"} 0`,
			`es_partition_end_offset{partition="1",topic="orders"} 1`,
			`es_partition_segment_count{partition="0",topic="orders"} 1`,
			`es_topic_records_produced_total{topic="orders"} 2`,
			`es_topic_records_consumed_total{topic="orders"} 1`,
			`es_group_committed_offset{group="analytics",partition="0",topic="orders"} 1`,
			`es_group_lag{group="analytics",partition="0",topic="orders"} 0`,
		} {
			require.Contains(t, got, want)
		}
		require.Regexp(t, `es_partition_size_bytes\{[^}]*\} [1-9]`, strings.Join(got, "\n"))
		require.Regexp(t, `es_topic_bytes_produced_total\{[^}]*\} [1-9]`, strings.Join(got, "\n"))
		require.Regexp(t, `es_topic_bytes_consumed_total\{[^}]*\} [1-9]`, strings.Join(got, "\n"))
	})
}

var seriesLine = regexp.MustCompile(`(?m)^(es_[a-z_]+)\{(.*)\} (\S+)$`)

// series are the lines of the document's series, their labels in the order of
// the alphabet.
func series(text string) []string {
	var lines []string
	for _, m := range seriesLine.FindAllStringSubmatch(text, -1) {
		labels := strings.Split(m[2], ",")
		slices.Sort(labels)
		lines = append(lines, m[1]+"{"+strings.Join(labels, ",")+"} "+m[3])
	}
	return lines
}

// TestForeignHost: without authentication a page of another site must not reach
// the server through a name that resolves to this machine.
func TestForeignHost(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.HTTP()+"/topics", nil)
		require.NoError(t, err)
		request.Host = "evil.example"
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusForbidden, response.StatusCode)
	})
}
