package meta

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// configDef is one topic config: its default and what values it takes. check
// returns the value as it is stored, or what is wrong with it.
type configDef struct {
	def   string
	check func(value string) (string, error)
}

func intIn(lo, hi int64) func(string) (string, error) {
	return func(value string) (string, error) {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return "", fmt.Errorf("is no whole number")
		}
		if n < lo {
			return "", fmt.Errorf("is less than %d", lo)
		}
		if n > hi {
			return "", fmt.Errorf("is more than %d", hi)
		}
		return strconv.FormatInt(n, 10), nil
	}
}

func floatIn(lo, hi float64) func(string) (string, error) {
	return func(value string) (string, error) {
		value = strings.TrimSpace(value)
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(n) {
			return "", fmt.Errorf("is no number")
		}
		if n < lo || n > hi {
			return "", fmt.Errorf("is not between %v and %v", lo, hi)
		}
		return value, nil
	}
}

func boolean(value string) (string, error) {
	switch v := strings.ToLower(strings.TrimSpace(value)); v {
	case "true", "false":
		return v, nil
	}
	return "", fmt.Errorf("is neither true nor false")
}

func oneOf(values ...string) func(string) (string, error) {
	return func(value string) (string, error) {
		value = strings.TrimSpace(value)
		for _, v := range values {
			if v == value {
				return v, nil
			}
		}
		return "", fmt.Errorf("is none of %s", strings.Join(values, ", "))
	}
}

// policy reads a list of "delete" and "compact". It is stored in one spelling.
func policy(value string) (string, error) {
	var del, compact bool
	for _, part := range strings.Split(value, ",") {
		switch strings.TrimSpace(part) {
		case "delete":
			del = true
		case "compact":
			compact = true
		default:
			return "", fmt.Errorf("is none of delete, compact and compact,delete")
		}
	}
	switch {
	case del && compact:
		return "compact,delete", nil
	case compact:
		return "compact", nil
	}
	return "delete", nil
}

// maxConfigText limits configs that are free text.
const maxConfigText = 4096

func anyText(value string) (string, error) {
	if len(value) > maxConfigText {
		return "", fmt.Errorf("is longer than %d bytes", maxConfigText)
	}
	return value, nil
}

func invalidConfig(format string, args ...any) error {
	return errs.New(errs.InvalidArgument, "INVALID_CONFIG", format, args...)
}

// ApplyConfig returns config with set and unset applied: as it is stored, or
// why it cannot be. config is not changed.
func ApplyConfig(config, set map[string]string, unset []string) (map[string]string, error) {
	next := make(map[string]string, len(config)+len(set))
	for name, value := range config {
		next[name] = value
	}
	for _, name := range unset {
		if _, ok := configs[name]; !ok {
			return nil, invalidConfig("there is no topic config %q", name)
		}
		if _, ok := set[name]; ok {
			return nil, invalidConfig("config %s is both set and unset", name)
		}
		delete(next, name)
	}
	for name, value := range set {
		def, ok := configs[name]
		if !ok {
			return nil, invalidConfig("there is no topic config %q", name)
		}
		stored, err := def.check(value)
		if err != nil {
			return nil, invalidConfig("config %s: %q %v", name, shorten(value), err)
		}
		next[name] = stored
	}
	return next, checkTogether(next)
}

// checkTogether refuses configs that contradict one another.
func checkTogether(config map[string]string) error {
	number := func(name string) int64 {
		value, ok := config[name]
		if !ok {
			value = configs[name].def
		}
		n, _ := strconv.ParseInt(value, 10, 64) // checked when it was set
		return n
	}
	text := func(name string) string {
		if value, ok := config[name]; ok {
			return value
		}
		return configs[name].def
	}
	if lo, hi := number("min.compaction.lag.ms"), number("max.compaction.lag.ms"); lo > hi {
		return invalidConfig("min.compaction.lag.ms %d is more than max.compaction.lag.ms %d", lo, hi)
	}
	for local, all := range map[string]string{"local.retention.ms": "retention.ms", "local.retention.bytes": "retention.bytes"} {
		// -1 is without limit, -2 is the other's value.
		l, a := number(local), number(all)
		if a >= 0 && (l == -1 || l > a) {
			return invalidConfig("%s %d is more than %s %d", local, l, all, a)
		}
	}
	if text("remote.storage.enable") == "true" && strings.Contains(text("cleanup.policy"), "compact") {
		return invalidConfig("remote.storage.enable does not go with a compacted topic")
	}
	return nil
}

// shorten keeps a value that somebody sent readable in a message.
func shorten(value string) string {
	const limit = 64
	if len(value) <= limit {
		return value
	}
	return value[:limit] + "…"
}
