package topicconfig

import (
	"fmt"
	"strconv"
	"strings"
)

// Exists tells whether there is a config of this name.
func Exists(name string) bool {
	_, ok := table[name]
	return ok
}

// Names returns the names of all configs, in no order.
func Names() []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	return names
}

// Check returns a value as it is stored, or what is wrong with it. The config
// exists.
func Check(name, value string) (string, error) { return known(name).check(value) }

// Default is the value of a config that a topic does not set.
func Default(name string) string { return known(name).def }

// Text returns the value that a config has, given those that are set.
func Text(set map[string]string, name string) string {
	if value, ok := set[name]; ok {
		return value
	}
	return Default(name)
}

// Int is Text of a whole number. One that cannot be read is the default: what was
// stored was checked, and nothing can be refused any more.
func Int(set map[string]string, name string) int64 {
	if n, err := strconv.ParseInt(Text(set, name), 10, 64); err == nil {
		return n
	}
	n, err := strconv.ParseInt(Default(name), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("topic config %s is no whole number", name))
	}
	return n
}

// Float is Int of a number.
func Float(set map[string]string, name string) float64 {
	if n, err := strconv.ParseFloat(Text(set, name), 64); err == nil {
		return n
	}
	n, err := strconv.ParseFloat(Default(name), 64)
	if err != nil {
		panic(fmt.Sprintf("topic config %s is no number", name))
	}
	return n
}

// Bool is Int of true or false.
func Bool(set map[string]string, name string) bool {
	b, err := strconv.ParseBool(Text(set, name))
	if err != nil {
		return Default(name) == "true"
	}
	return b
}

// Compacts tells whether the newest record of each key is kept.
func Compacts(set map[string]string) bool {
	return strings.Contains(Text(set, "cleanup.policy"), "compact")
}

// Deletes tells whether retention applies.
func Deletes(set map[string]string) bool {
	return strings.Contains(Text(set, "cleanup.policy"), "delete")
}

// Tiered tells whether sealed segments go to cold storage, where there is any.
func Tiered(set map[string]string) bool {
	return Bool(set, "remote.storage.enable") && !Bool(set, "remote.log.copy.disable") && !Compacts(set)
}

func known(name string) definition {
	d, ok := table[name]
	if !ok {
		panic(fmt.Sprintf("there is no topic config %q", name))
	}
	return d
}
