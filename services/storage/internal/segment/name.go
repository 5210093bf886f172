package segment

import (
	"fmt"
	"strconv"
	"strings"
)

// Suffixes of a segment's files.
const (
	LogSuffix   = ".log"
	IndexSuffix = ".index"
)

// LogName is the name of the log file of the segment with a base.
func LogName(base int64) string { return fmt.Sprintf("%020d%s", base, LogSuffix) }

// IndexName is the name of its index file.
func IndexName(base int64) string { return fmt.Sprintf("%020d%s", base, IndexSuffix) }

// ParseName tells a segment's file from others.
func ParseName(name string) (base int64, suffix string, ok bool) {
	digits, rest, found := strings.Cut(name, ".")
	suffix = "." + rest
	if !found || len(digits) != 20 || suffix != LogSuffix && suffix != IndexSuffix {
		return 0, "", false
	}
	u, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, "", false
	}
	return int64(u), suffix, true
}
