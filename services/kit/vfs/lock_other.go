//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package vfs

import (
	"errors"
	"os"
)

// lock refuses: without a lock that ends with the process, two servers on one
// data folder could not be told apart from one that crashed.
func lock(*os.File) error { return errors.ErrUnsupported }
