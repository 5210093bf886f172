package topicconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/topicconfig"
)

// A default is a value that may be set, as it would be stored.
func TestDefaultsAreValues(t *testing.T) {
	require.Greater(t, len(topicconfig.Names()), 30)
	for _, name := range topicconfig.Names() {
		stored, err := topicconfig.Check(name, topicconfig.Default(name))
		require.NoError(t, err, name)
		require.Equal(t, topicconfig.Default(name), stored, name)
		require.True(t, topicconfig.Exists(name))
	}
	require.False(t, topicconfig.Exists("retention"))
	require.Panics(t, func() { topicconfig.Default("retention") })
}

func TestValuesAreTakenFromWhatIsSetOrTheTable(t *testing.T) {
	set := map[string]string{"retention.ms": "5", "min.cleanable.dirty.ratio": "0.25", "preallocate": "true", "segment.ms": "soon"}
	require.Equal(t, int64(5), topicconfig.Int(set, "retention.ms"))
	require.Equal(t, int64(604800000), topicconfig.Int(nil, "retention.ms"))
	require.Equal(t, int64(604800000), topicconfig.Int(set, "segment.ms"), "what cannot be read is the default")
	require.InDelta(t, 0.25, topicconfig.Float(set, "min.cleanable.dirty.ratio"), 0)
	require.InDelta(t, 0.5, topicconfig.Float(nil, "min.cleanable.dirty.ratio"), 0)
	require.True(t, topicconfig.Bool(set, "preallocate"))
	require.False(t, topicconfig.Bool(nil, "preallocate"))
	require.Equal(t, "producer", topicconfig.Text(nil, "compression.type"))
}

func TestGzipLevels(t *testing.T) {
	for level, fine := range map[string]bool{"-2": false, "-1": true, "0": false, "1": true, " 9 ": true, "10": false, "x": false} {
		_, err := topicconfig.Check("compression.gzip.level", level)
		require.Equal(t, fine, err == nil, level)
	}
}

// Whoever gives a node cold storage has it used, unless a topic says otherwise.
func TestTiered(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want bool
	}{
		{nil, true},
		{map[string]string{"cleanup.policy": "delete"}, true},
		{map[string]string{"remote.storage.enable": "true"}, true},
		{map[string]string{"remote.storage.enable": "false"}, false},
		{map[string]string{"remote.log.copy.disable": "true"}, false},
		{map[string]string{"cleanup.policy": "compact"}, false},
		{map[string]string{"cleanup.policy": "compact,delete"}, false},
	} {
		require.Equal(t, c.want, topicconfig.Tiered(c.set), "%v", c.set)
	}
	require.Equal(t, "true", topicconfig.Default("remote.storage.enable"), "as storage acts")
	require.True(t, topicconfig.Deletes(nil))
	require.False(t, topicconfig.Compacts(nil))
}
