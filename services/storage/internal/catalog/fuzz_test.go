package catalog

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Whatever the file holds, reading it ends, with records that it has whole and the
// end of the last of them, or with an error.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) {
		found, err := parse(content)
		if err != nil {
			return
		}
		require.LessOrEqual(t, found.end, int64(len(content)))
		again, err := parse(content[:found.end])
		require.NoError(t, err)
		require.Equal(t, found.end, again.end)
		require.Len(t, again.records, len(found.records))

		// What it adds up to is what a file that is written anew says.
		c := &Catalog{keep: maxRemoved}
		c.mu.topics, c.mu.removed = map[uuid.UUID]*persistv1.CatalogTopic{}, map[uuid.UUID]int64{}
		c.mu.cold = map[uuid.UUID]struct{}{}
		for _, record := range found.records {
			c.applyLocked(record)
		}
		anew, err := c.encodeLocked()
		require.NoError(t, err)
		found, err = parse(anew)
		require.NoError(t, err)
		require.Equal(t, int64(len(anew)), found.end)
		require.Len(t, found.records, len(c.mu.topics)+len(c.mu.removed)+len(c.mu.cold)+1)
	})
}
