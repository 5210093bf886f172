package conf

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

// sizeType is what --help shows as the type.
const sizeType = "size"

// SizeVar registers a flag for a number of bytes, which may be written as a
// plain number (67108864), in binary units (64MiB) or in decimal ones (10MB).
func SizeVar(fs *pflag.FlagSet, p *int64, name string, value int64, usage string) {
	*p = value
	fs.Var((*size)(p), name, usage)
}

type size int64

var errNotASize = errors.New("expected a size such as 67108864, 64MiB or 10MB")

// Set reads a size.
func (s *size) Set(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 {
			return errNotASize
		}
		*s = size(n)
		return nil
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return errNotASize
	}
	*s = size(n)
	return nil
}

// String writes the size in the largest unit that divides it.
func (s *size) String() string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if bytes := int64(1) << (10 * (4 - i)); *s != 0 && int64(*s)%bytes == 0 {
			return fmt.Sprintf("%d%s", int64(*s)/bytes, unit)
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type returns the name of the type.
func (*size) Type() string { return sizeType }
