package storage

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// registerHealth registers what an operator has to act on: partitions that have
// failed, and the disk's free bytes. space may be nil.
func registerHealth(failed func() node.Failed, space func() (vfs.Space, error), registerer prometheus.Registerer) {
	registerer.MustRegister(&health{
		failed: failed,
		space:  space,
		partitions: prometheus.NewDesc("sluice_storage_failed_partitions",
			"Partitions of this node that serve nothing (damaged, failed), or are read and had no room for an append in the last ten minutes (no_space).",
			[]string{"state"}, nil),
		free: prometheus.NewDesc("sluice_storage_disk_free_bytes", "Bytes that may still be written to the disk of the data directory.", nil, nil),
		size: prometheus.NewDesc("sluice_storage_disk_size_bytes", "Size of the disk of the data directory.", nil, nil),
	})
}

type health struct {
	failed                 func() node.Failed
	space                  func() (vfs.Space, error)
	partitions, free, size *prometheus.Desc
}

func (h *health) Describe(to chan<- *prometheus.Desc) {
	to <- h.partitions
	to <- h.free
	to <- h.size
}

// Collect leaves out what the system does not tell.
func (h *health) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	failed := h.failed()
	gauge(h.partitions, int64(failed.Damaged), "damaged")
	gauge(h.partitions, int64(failed.Failed), "failed")
	gauge(h.partitions, int64(failed.NoSpace), "no_space")
	if h.space == nil {
		return
	}
	if space, err := h.space(); err == nil {
		gauge(h.free, space.Free)
		gauge(h.size, space.Size)
	}
}
