// Package conf gives a command its options from three places. A flag on the
// command line wins over the environment, the environment over the file that
// --config names, and that over the flag's default:
//
//	--segment-bytes 64MiB
//	SLUICE_SEGMENT_BYTES=64MiB
//	segment-bytes: 64MiB            # or 67108864
//
// There is one name for an option: the flag's. In a file, a flag that may be
// repeated takes a list; in the environment it takes its values with commas
// between them. Whatever is unknown or of the wrong type is refused, all faults of
// all places together, each with its place, the value and what was expected, so that
// no misspelt option is ever silently without effect.
//
// A flag is declared once, on a pflag.FlagSet, with its default; its variable
// has the effective value after [Load].
package conf

import (
	"github.com/spf13/pflag"
)

// Prefix is what begins the name of every variable of ours.
const Prefix = "SLUICE_"

// configFlag names the file. It has no place in a file.
const configFlag = "config"

// RegisterFlags registers --config.
func RegisterFlags(fs *pflag.FlagSet) {
	fs.String(configFlag, "", "YAML `file` with options, each under its flag's name")
}
