package storage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// measuredFS measures the writes and syncs of a file system.
type measuredFS struct {
	vfs.FS
	writes, syncs prometheus.Observer
	written       prometheus.Counter
}

// measured wraps a file system with series of its own.
func measured(fs vfs.FS, registerer prometheus.Registerer) vfs.FS {
	factory := promauto.With(registerer)
	buckets := prometheus.ExponentialBuckets(20e-6, 2, 18)
	return &measuredFS{
		FS: fs,
		writes: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_disk_write_seconds", Help: "Time of one write to a partition's files.", Buckets: buckets,
		}),
		syncs: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_disk_sync_seconds", Help: "Time of one sync of a partition's files.", Buckets: buckets,
		}),
		written: factory.NewCounter(prometheus.CounterOpts{
			Name: "sluice_disk_written_bytes_total", Help: "Bytes written to partitions' files.",
		}),
	}
}

func (m *measuredFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &measuredFile{File: file, fs: m}, nil
}

func (m *measuredFS) Create(name string) (vfs.File, error) { return m.wrap(m.FS.Create(name)) }
func (m *measuredFS) Open(name string) (vfs.File, error)   { return m.wrap(m.FS.Open(name)) }

type measuredFile struct {
	vfs.File
	fs *measuredFS
}

func since(began time.Time, to prometheus.Observer) { to.Observe(time.Since(began).Seconds()) }

func (f *measuredFile) WriteAt(p []byte, off int64) (int, error) {
	defer since(time.Now(), f.fs.writes)
	n, err := f.File.WriteAt(p, off)
	f.fs.written.Add(float64(n))
	return n, err
}

func (f *measuredFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	defer since(time.Now(), f.fs.writes)
	n, err := f.File.WritevAt(bufs, off)
	f.fs.written.Add(float64(n))
	return n, err
}

func (f *measuredFile) Datasync() error {
	defer since(time.Now(), f.fs.syncs)
	return f.File.Datasync()
}

func (f *measuredFile) Sync() error {
	defer since(time.Now(), f.fs.syncs)
	return f.File.Sync()
}
