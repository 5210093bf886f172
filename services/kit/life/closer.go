package life

import (
	"errors"
	"fmt"
)

// Closer is a stack of what was acquired. Closing it releases in reverse, so
// that nothing is released while something made later still uses it. The zero
// value is empty and ready. It is not safe for use by several goroutines.
type Closer struct {
	entries []entry
}

type entry struct {
	name  string
	close func() error
}

// Push adds a release to the top of the stack. Its error is reported under
// name.
func (c *Closer) Push(name string, release func() error) {
	c.entries = append(c.entries, entry{name, release})
}

// Close releases everything, the last first, whatever fails on the way, and
// returns all errors joined. The stack is empty afterwards.
func (c *Closer) Close() error {
	var errs []error
	for i := len(c.entries) - 1; i >= 0; i-- {
		if err := c.entries[i].close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.entries[i].name, err))
		}
	}
	c.entries = nil
	return errors.Join(errs...)
}

// CloseOnError is for constructors that acquire several things:
//
//	func New() (s *Service, err error) {
//		var closer life.Closer
//		defer closer.CloseOnError(&err)
//
// When *err is set it closes the stack and joins what that reports to *err;
// otherwise it leaves the stack to whoever took it over.
func (c *Closer) CloseOnError(err *error) {
	if *err != nil {
		*err = errors.Join(*err, c.Close())
	}
}
