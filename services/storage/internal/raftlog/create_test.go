package raftlog_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// Wherever the power goes while a log is made, and whatever of its folder that
// keeps, it is there, or is made anew; it is never taken for one that lost something.
func TestCreateWithAPowerCut(t *testing.T) {
	errDead := errors.New("dead")
	for dieAt, died := 1, true; died; dieAt++ {
		for seed := range uint64(40) {
			disk := memfs.New()
			require.NoError(t, disk.MkdirAll("t"))
			require.NoError(t, disk.SyncDir(""))
			ops, after := 0, (*memfs.FS)(nil)
			options := func(m *memfs.FS) raftlog.Options {
				return raftlog.Options{Dir: "t/0", Files: raftlog.NewFileCache(4), FS: faultfs.New(m, func(faultfs.Op, string) error {
					if m != disk {
						return nil
					}
					if ops++; ops >= dieAt && after == nil {
						after = disk.Crash(rand.New(rand.NewPCG(seed, 1)))
					}
					if after != nil {
						return errDead
					}
					return nil
				})}
			}
			b := raftlog.Bootstrap{ConfState: confState(1)}
			_, err := raftlog.Create(options(disk), b)
			if died = after != nil; !died {
				require.NoError(t, err)
				break
			}
			log, err := raftlog.Open(options(after))
			if errors.Is(err, fs.ErrNotExist) {
				log, err = raftlog.Create(options(after), b)
			}
			require.NoError(t, err, "died at operation %d, seed %d", dieAt, seed)
			require.NoError(t, log.Close(nil))
		}
	}
}
