package conf

import (
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// secretAnnotation marks a flag whose value is shown to nobody.
const secretAnnotation = "sluice_secret"

// MarkSecret marks a flag as secret: neither Dump nor a message shows its value.
// It panics on a flag that was not registered.
func MarkSecret(fs *pflag.FlagSet, name string) {
	if err := fs.SetAnnotation(name, secretAnnotation, []string{"true"}); err != nil {
		panic(err)
	}
}

func isSecret(f *pflag.Flag) bool {
	return len(f.Annotations[secretAnnotation]) > 0
}

// Dump returns the effective value of every option for the log of a start, in
// the order of names.
func Dump(fs *pflag.FlagSet) []slog.Attr {
	var attrs []slog.Attr
	fs.VisitAll(func(f *pflag.Flag) {
		if !isOption(f.Name) {
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if isSecret(f) && value != "" {
			value = "***"
		}
		attrs = append(attrs, slog.String(f.Name, value))
	})
	return attrs
}
