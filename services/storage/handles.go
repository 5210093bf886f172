package storage

import "golang.org/x/sys/unix"

// fallbackHandles is assumed where the limit of open files cannot be asked for.
const fallbackHandles = 1024

// handleShare is an eighth of the process's limit of open files: connections and
// etcd need the rest.
func handleShare() int {
	limit := uint64(fallbackHandles)
	var rlimit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &rlimit); err == nil {
		limit = rlimit.Cur
	}
	return int(min(max(limit/8, 16), 1<<16))
}
