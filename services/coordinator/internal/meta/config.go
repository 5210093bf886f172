package meta

import (
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/topicconfig"
)

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
		if !topicconfig.Exists(name) {
			return nil, invalidConfig("there is no topic config %q", name)
		}
		if _, ok := set[name]; ok {
			return nil, invalidConfig("config %s is both set and unset", name)
		}
		delete(next, name)
	}
	for name, value := range set {
		if !topicconfig.Exists(name) {
			return nil, invalidConfig("there is no topic config %q", name)
		}
		stored, err := topicconfig.Check(name, value)
		if err != nil {
			return nil, invalidConfig("config %s: %q %v", name, shorten(value), err)
		}
		next[name] = stored
	}
	return next, checkTogether(next)
}

// checkTogether refuses configs that contradict one another.
func checkTogether(config map[string]string) error {
	if lo, hi := topicconfig.Int(config, "min.compaction.lag.ms"), topicconfig.Int(config, "max.compaction.lag.ms"); lo > hi {
		return invalidConfig("min.compaction.lag.ms %d is more than max.compaction.lag.ms %d", lo, hi)
	}
	for local, all := range map[string]string{"local.retention.ms": "retention.ms", "local.retention.bytes": "retention.bytes"} {
		// -1 is without limit, -2 is the other's value.
		l, a := topicconfig.Int(config, local), topicconfig.Int(config, all)
		if a >= 0 && (l == -1 || l > a) {
			return invalidConfig("%s %d is more than %s %d", local, l, all, a)
		}
	}
	// The default goes with any topic: of a compacted one nothing is uploaded.
	if config["remote.storage.enable"] == "true" && topicconfig.Compacts(config) {
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
