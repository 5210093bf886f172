package blobtest

import (
	"github.com/sluiceio/sluice/services/kit/blob/dir"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

// NewMemory returns a store in memory.
func NewMemory() *dir.Store { return dir.New(memfs.New(), "/blobs") }
