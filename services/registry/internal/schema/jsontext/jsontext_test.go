package jsontext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/registry/internal/schema/jsontext"
)

func TestBounds(t *testing.T) {
	list := func(element string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	for text, want := range map[string]string{
		list("1", 199_999):   "",
		list("1", 200_000):   "more than 200000 values",
		list("{}", 20_000):   "",
		list("{}", 20_001):   "more than 20000 objects",
		list("true", 20_001): "more than 20000 objects",
		strings.Repeat("[", 199) + strings.Repeat("]", 199): "",
		strings.Repeat("[", 201) + strings.Repeat("]", 201): "nested deeper than 200",
		"1e400":                  "",
		"1e401":                  "beyond 400",
		"1e-401":                 "beyond 400",
		"1e99999999999999999999": "beyond 400",
		strings.Repeat("1", 101): "more than 100 digits",
		"":                       "no JSON",
		"{}{}":                   "something follows",
		`{"a":`:                  "no JSON",
	} {
		_, err := jsontext.Decode(text)
		if want == "" {
			require.NoError(t, err, "%.40s", text)
			continue
		}
		require.ErrorContains(t, err, want, "%.40s", text)
	}
}

func TestCanonical(t *testing.T) {
	canonical := func(text string) string {
		document, err := jsontext.Decode(text)
		require.NoError(t, err)
		return string(jsontext.Canonical(document))
	}
	require.Equal(t, canonical(`{"a":1,"b":[10,"x"]}`), canonical(` { "b" : [ 1e1 , "\u0078" ], "a" : 1.0 } `))
	for _, different := range [][2]string{
		{`1`, `"1"`}, {`1`, `2`}, {`[1,2]`, `[2,1]`}, {`{"a":null}`, `{}`}, {`true`, `"true"`},
	} {
		require.NotEqual(t, canonical(different[0]), canonical(different[1]))
	}
}
