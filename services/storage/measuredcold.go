package storage

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// measuredStore measures what is asked of cold storage.
type measuredStore struct {
	store                                 blob.Store
	put, read, remove, list               operation
	uploaded, deleted, written, readBytes prometheus.Counter
}

// operation measures one kind of request.
type operation struct {
	seconds  prometheus.Observer
	failures prometheus.Counter
}

func (o operation) done(began time.Time, err error) {
	o.seconds.Observe(time.Since(began).Seconds())
	if err != nil {
		o.failures.Inc()
	}
}

// measuredBlob wraps a store with series of its own; nil stays nil.
func measuredBlob(store blob.Store, registerer prometheus.Registerer) blob.Store {
	if store == nil {
		return nil
	}
	factory := promauto.With(registerer)
	seconds := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_cold_request_seconds", Help: "Time of one request to cold storage, retries included.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 2, 16),
	}, []string{"operation"})
	failures := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_cold_failures_total", Help: "Requests to cold storage that failed after all retries.",
	}, []string{"operation"})
	kind := func(name string) operation {
		return operation{seconds: seconds.WithLabelValues(name), failures: failures.WithLabelValues(name)}
	}
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &measuredStore{
		store: store, put: kind("put"), read: kind("read"), remove: kind("delete"), list: kind("list"),
		uploaded:  counter("sluice_cold_uploaded_segments_total", "Segments uploaded to cold storage."),
		deleted:   counter("sluice_cold_deleted_objects_total", "Objects deleted from cold storage."),
		written:   counter("sluice_cold_uploaded_bytes_total", "Bytes of the segments uploaded to cold storage."),
		readBytes: counter("sluice_cold_read_bytes_total", "Bytes read from cold storage."),
	}
}

// Put implements blob.Store.
func (m *measuredStore) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	began := time.Now()
	err := m.store.Put(ctx, name, src, size, crc32c)
	m.put.done(began, err)
	if err == nil {
		m.uploaded.Inc()
		m.written.Add(float64(size))
	}
	return err
}

// ReadAt implements blob.Store.
func (m *measuredStore) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	began := time.Now()
	n, err := m.store.ReadAt(ctx, name, p, off)
	failed := err
	if n == len(p) {
		failed = nil
	}
	m.read.done(began, failed)
	m.readBytes.Add(float64(n))
	return n, err
}

// Delete implements blob.Store.
func (m *measuredStore) Delete(ctx context.Context, name string) error {
	began := time.Now()
	err := m.store.Delete(ctx, name)
	m.remove.done(began, err)
	if err == nil {
		m.deleted.Inc()
	}
	return err
}

// List implements blob.Store.
func (m *measuredStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		began := time.Now()
		var failed error
		for info, err := range m.store.List(ctx, prefix) {
			failed = err
			if !yield(info, err) {
				break
			}
		}
		m.list.done(began, failed)
	}
}

// registerColdTotals registers what is, and what should be, in cold storage.
func registerColdTotals(totals func() node.ColdTotals, registerer prometheus.Registerer) {
	factory := promauto.With(registerer)
	gauge := func(name, help string, value func(node.ColdTotals) float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(totals()) })
	}
	gauge("sluice_cold_segments", "Segments in cold storage of the partitions that this node leads.",
		func(t node.ColdTotals) float64 { return float64(t.Segments) })
	gauge("sluice_cold_bytes", "Bytes of their batches.",
		func(t node.ColdTotals) float64 { return float64(t.Bytes) })
	gauge("sluice_cold_pending_segments", "Sealed segments that wait to be uploaded, as of the last pass.",
		func(t node.ColdTotals) float64 { return float64(t.PendingSegments) })
	gauge("sluice_cold_pending_bytes", "Bytes of their batches.",
		func(t node.ColdTotals) float64 { return float64(t.PendingBytes) })
	gauge("sluice_cold_lag_seconds", "Age of the newest record in the oldest segment that waits to be uploaded.",
		func(t node.ColdTotals) float64 { return t.Lag.Seconds() })
}
