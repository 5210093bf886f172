package conf

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HoldFaults has the command line of cmd read to its end although a value cannot be:
// [Load] tells of all of them, beside those of the other places. It comes after the
// flags were registered. A flag that does not exist still ends the reading.
func HoldFaults(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		h := &held{Value: f.Value}
		f.Value = h
		if list, ok := h.Value.(pflag.SliceValue); ok {
			f.Value = &heldList{held: h, SliceValue: list}
		}
	})
	// pflag knows by the type of a value whether a default is worth showing.
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		release(cmd.Flags(), func(*pflag.Flag, string, error) {})
		// The help function is asked for anew: it may be a parent's, and there may be
		// none; for a command below cmd it would be this one again.
		cmd.SetHelpFunc(nil)
		c.HelpFunc()(c, args)
	})
}

// release gives the flags their own values back, and tells what these refused.
func release(fs *pflag.FlagSet, refused func(f *pflag.Flag, text string, err error)) {
	fs.VisitAll(func(f *pflag.Flag) {
		h, ok := f.Value.(*held)
		if list, is := f.Value.(*heldList); is {
			h, ok = list.held, true
		}
		if !ok {
			return
		}
		f.Value = h.Value
		for _, r := range h.refused {
			refused(f, r.text, r.err)
		}
	})
}

// held is a value that keeps what it refuses.
type held struct {
	pflag.Value
	refused []refusal
}

type refusal struct {
	text string
	err  error
}

// Set never fails.
func (h *held) Set(text string) error {
	if err := h.Value.Set(text); err != nil {
		h.refused = append(h.refused, refusal{text, err})
	}
	return nil
}

// heldList is held for a flag that may be repeated.
type heldList struct {
	*held
	pflag.SliceValue
}
