package grants_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rule as one would explain it, beside the rule as it is.
func FuzzPrefixes(f *testing.F) {
	for _, seed := range [][2]string{
		{"orders", "orders"}, {"orders", "orders.eu"}, {"orders", "ordersecret"}, {"orders.", "orders.eu"}, {"orders.", "orders"},
		{"*", "a"}, {"", ""}, {"", "a"}, {"a", ""}, {"*", "__sluice_shards"}, {"__", "__x"}, {"_", "__x"}, {"a*", "ab"}, {"A", "a"},
		{"orders", "orders\x00"}, {"ä", "ä.b"}, {"\xff", "\xff-"}, {".", "..."},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, prefix, topic string) {
		got := holder(read, prefix).May(read, topic)
		require.Equal(t, explained(prefix, topic), got, "%q covers %q", prefix, topic)
		if got && prefix != "*" {
			require.True(t, strings.HasPrefix(topic, prefix))
			require.True(t, holder(read, "*").May(read, topic), "* covers what any other does")
		}
	})
}

func explained(prefix, topic string) bool {
	if prefix == "" || regexp.MustCompile(`^__`).MatchString(topic) {
		return false
	}
	if prefix == "*" {
		return true
	}
	// Bytes, so that what is no text is compared too.
	literal := ""
	for _, b := range []byte(prefix) {
		literal += regexp.QuoteMeta(latin1(b))
	}
	end := `($|[._-])`
	if regexp.MustCompile(`[._-]$`).MatchString(prefix) {
		end = ""
	}
	subject := ""
	for _, b := range []byte(topic) {
		subject += latin1(b)
	}
	return regexp.MustCompile(`(?s)\A` + literal + end).MatchString(subject)
}

func latin1(b byte) string { return string(rune(b)) }
