package topicconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// definition is one topic config: its default and what values it takes. check
// returns the value as it is stored, or what is wrong with it.
type definition struct {
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

// gzipLevel is -1 for the library's own choice; Kafka refuses 0, which is no
// compression.
func gzipLevel(value string) (string, error) {
	level, err := intIn(-1, 9)(value)
	if level == "0" {
		return "", fmt.Errorf("is neither -1 nor between 1 and 9")
	}
	return level, err
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
