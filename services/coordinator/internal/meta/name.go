package meta

import (
	"strings"

	"github.com/sluiceio/sluice/services/kit/errs"
)

const (
	// MaxNameLength is Kafka's; doors may allow less.
	MaxNameLength = 249
	// MaxPartitions is the largest number of partitions of a topic.
	MaxPartitions = 10_000
	// internalPrefix begins the names of the system's own topics, and those
	// that Kafka's clients take for its own.
	internalPrefix = "__"
)

// CheckName refuses what cannot be the name of a topic that a client makes.
func CheckName(name string) error {
	if err := checkForm(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, internalPrefix) {
		return invalidName("topic names that begin with %q are the system's", internalPrefix)
	}
	return nil
}

func checkForm(name string) error {
	switch {
	case name == "":
		return invalidName("the topic's name is empty")
	case len(name) > MaxNameLength:
		return invalidName("the topic's name is longer than %d characters", MaxNameLength)
	case name == "." || name == "..":
		return invalidName("a topic cannot be called %q", name)
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return invalidName("the topic's name has other characters than letters, digits, '.', '-' and '_'")
		}
	}
	return nil
}

func invalidName(format string, args ...any) error {
	return errs.New(errs.InvalidArgument, "INVALID_TOPIC_NAME", format, args...)
}
