package conf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Load sets the flags of cmd that the command line left alone, from the
// variables in environ ("NAME=value", as os.Environ gives them) and from the
// file. It reports all faults together, those of the command line too if
// [HoldFaults] held them.
//
// A variable that is an option of another command of the same program is left
// alone, since an environment is shared; in a file it is refused.
func Load(cmd *cobra.Command, environ []string) error {
	l := &loader{command: cmd.CommandPath(), flags: cmd.Flags(), typed: make(map[string]bool), elsewhere: optionsOf(cmd.Root())}
	l.flags.Visit(func(f *pflag.Flag) { l.typed[f.Name] = true })
	release(l.flags, func(f *pflag.Flag, text string, err error) {
		l.refuseValue("--"+f.Name+" on the command line", f, text, err)
	})
	// The environment may name the file.
	variables := l.fromEnvironment(environ)
	options := l.fromFile()
	// The later wins.
	l.apply(options)
	l.apply(variables)
	return errors.Join(l.faults...)
}

type loader struct {
	// command is what a person typed, without flags.
	command string
	flags   *pflag.FlagSet
	// typed are the flags that were set on the command line.
	typed map[string]bool
	// elsewhere are the options of all commands of the program.
	elsewhere map[string]bool
	faults    []error
}

// source is what one place has to say: a value by flag name.
type source struct {
	values map[string]any
	// where says where the value of a flag is, for messages.
	where func(name string) string
	// textual: every value is text, whatever it means.
	textual bool
}

func (l *loader) refuse(format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf(format, args...))
}

// option returns the flag that may be set under a name.
func (l *loader) option(name string) *pflag.Flag {
	if !isOption(name) {
		return nil
	}
	return l.flags.Lookup(name)
}

func isOption(name string) bool {
	return name != "help" && name != "version"
}

func (l *loader) fromEnvironment(environ []string) source {
	k := koanf.New(".")
	provider := env.Provider(".", env.Opt{
		Prefix:      Prefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(variable, value string) (string, any) {
			name := flagName(variable)
			f := l.option(name)
			switch {
			case f == nil && (l.elsewhere[name] || isServiceLink(variable, value)):
				return "", nil
			case f == nil:
				l.refuse("%s in the environment: %s has no option --%s", variable, l.command, name)
				return "", nil
			case name == configFlag:
				// Known at once, since the file is read next.
				if !l.typed[name] {
					_ = l.flags.Set(name, value)
				}
				return "", nil
			}
			if _, ok := f.Value.(pflag.SliceValue); ok {
				return name, split(value)
			}
			return name, value
		},
	})
	if err := k.Load(provider, nil); err != nil {
		l.refuse("environment: %w", err)
	}
	where := func(name string) string { return variableName(name) + " in the environment" }
	return source{k.Raw(), where, true}
}

func split(list string) []any {
	var values []any
	for value := range strings.SplitSeq(list, ",") {
		if value != "" {
			values = append(values, value)
		}
	}
	return values
}

func (l *loader) fromFile() source {
	f := l.flags.Lookup(configFlag)
	if f == nil || f.Value.String() == "" {
		return source{}
	}
	path := f.Value.String()
	k := koanf.New(".")
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		l.refuse("read --config %s: %w", path, err)
		return source{}
	}
	where := func(name string) string { return name + " in " + path }
	values := k.Raw()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case name == configFlag:
			l.refuse("%s: a file cannot name a file", where(name))
		case l.option(name) != nil:
			continue
		case l.elsewhere[name]:
			l.refuse("%s: an option of another command, not of %s", where(name), l.command)
		default:
			l.refuse("%s: %s has no such option", where(name), l.command)
		}
		delete(values, name)
	}
	return source{values, where, false}
}

// apply sets the flags that the command line left alone.
func (l *loader) apply(s source) {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		f := l.flags.Lookup(name)
		value, ok := plain(f, s.values[name], s.textual)
		if !ok {
			l.refuse("%s: expected %s, got %s", s.where(name), expected(f), describe(f, s.values[name]))
			continue
		}
		if l.typed[name] {
			continue
		}
		if err := set(l.flags, f, value); err != nil {
			l.refuseValue(s.where(name), f, s.values[name], err)
		}
	}
}

// refuseValue tells where a value is, what was expected, and what it is.
func (l *loader) refuseValue(where string, f *pflag.Flag, value any, err error) {
	l.refuse("%s: expected %s, got %s%s", where, expected(f), describe(f, value), because(f, err))
}

func set(flags *pflag.FlagSet, f *pflag.Flag, value any) error {
	list, ok := value.([]string)
	if !ok {
		return flags.Set(f.Name, value.(string))
	}
	if err := f.Value.(pflag.SliceValue).Replace(list); err != nil {
		return err
	}
	f.Changed = true
	return nil
}

// optionsOf returns the names of all flags of a command and those below it.
func optionsOf(cmd *cobra.Command) map[string]bool {
	names := make(map[string]bool)
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		note := func(f *pflag.Flag) {
			if isOption(f.Name) {
				names[f.Name] = true
			}
		}
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(cmd)
	return names
}
