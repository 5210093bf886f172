// Package invariant holds assertions that run in test builds only: with the
// build tag "invariants", and under the race detector, which turns them on too.
//
// A broken invariant is a bug, never bad input. In a test build it panics where
// it is found; in production [Bugf] makes an error of it, since a process that
// holds other people's records should lose one request rather than all of them.
package invariant

import "fmt"

// Checkf panics in a test build unless holds. Its arguments are evaluated in
// every build: wrap what is expensive in "if invariant.Enabled".
func Checkf(holds bool, format string, args ...any) {
	if Enabled && !holds {
		panic("invariant: " + fmt.Sprintf(format, args...))
	}
}

// Bugf reports what can only be a fault of the program: it panics in a test
// build and returns an error in production.
func Bugf(format string, args ...any) error {
	err := fmt.Errorf("bug: "+format, args...)
	if Enabled {
		panic(err)
	}
	return err
}

// Scribble overwrites a buffer whose lifetime is over in a test build, so that
// whoever still reads it is found out.
func Scribble(b []byte) {
	if Enabled {
		for i := range b {
			b[i] = 0xCC
		}
	}
}
