// Package openfiles shares out the process's limit of open files, so that no part
// of it takes what another needs: connections that clients open are files too.
package openfiles

import "golang.org/x/sys/unix"

// fallback is assumed where the limit cannot be asked for.
const fallback = 1024

// Share is one of so many equal parts of the limit, within reason.
func Share(parts uint64) int {
	limit := uint64(fallback)
	var rlimit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &rlimit); err == nil {
		limit = rlimit.Cur
	}
	return int(min(max(limit/parts, 16), 1<<16))
}
