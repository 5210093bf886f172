package conf_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/kit/conf"
)

func sizeFlag() (*int64, pflag.Value) {
	var bytes int64
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	conf.SizeVar(fs, &bytes, "size", 7, "")
	return &bytes, fs.Lookup("size").Value
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "67108864": 64 << 20, "64MiB": 64 << 20, "10MB": 10_000_000, "1.5GiB": 3 << 29, "1 KiB": 1024,
		"9223372036854775807": 1<<63 - 1,
	} {
		bytes, flag := sizeFlag()
		require.EqualValues(t, 7, *bytes)
		require.NoError(t, flag.Set(text), text)
		require.Equal(t, want, *bytes, text)
	}
	for _, text := range []string{"", "-1", "-1MiB", "MiB", "1XB", "9223372036854775808", "16EiB", "1e400MB", "NaN"} {
		_, flag := sizeFlag()
		require.Error(t, flag.Set(text), text)
	}
}

func TestSizesReadWhatTheyWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := int64(1) << (10 * rapid.IntRange(0, 4).Draw(t, "unit"))
		want := rapid.Int64Range(0, 1<<20).Draw(t, "n") * unit
		bytes, flag := sizeFlag()
		*bytes = want
		text := flag.String()
		*bytes = 0
		require.NoError(t, flag.Set(text))
		require.Equal(t, want, *bytes, text)
	})
}
