package blob

import (
	"errors"
	"fmt"
)

// ErrInvalidName is a name that no object can have.
var ErrInvalidName = errors.New("invalid object name")

// maxName is the longest name in bytes. S3 takes 1024, a prefix included.
const maxName = 512

// CheckName returns an ErrInvalidName that says what is wrong with a name.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%w: it has %d bytes, expected 1 to %d", ErrInvalidName, len(name), maxName)
	}
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			if !plain(name[i]) {
				return fmt.Errorf("%w: %q has %q, expected letters, digits, '-', '_', '.' and single slashes", ErrInvalidName, name, name[i])
			}
			continue
		}
		switch name[start:i] {
		case "", ".", "..":
			return fmt.Errorf("%w: %q has a segment %q, expected one that names something", ErrInvalidName, name, name[start:i])
		}
		start = i + 1
	}
	return nil
}

func plain(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		return true
	}
	return false
}
