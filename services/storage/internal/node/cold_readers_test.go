package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
)

// follow reads a partition from its start to an end, whatever happens to the
// segments meanwhile, and expects each record once and in order. What retention
// deletes while it reads it may miss.
func follow(p *Partition, end int64) error {
	offset := int64(0)
	for offset < end {
		got, err := p.Fetch(context.Background(), Fetch{Offset: offset, MaxBytes: 2000, Epoch: NoEpoch, LastEpoch: NoEpoch})
		if errors.Is(err, ErrOffsetOutOfRange) {
			if start := got.View.State.StartOffset; start > offset {
				offset = start
				continue
			}
			// The view was of just before.
			if d, describeErr := p.Describe(context.Background()); describeErr != nil || d.View.State.StartOffset <= offset {
				return fmt.Errorf("at %d: %w", offset, errors.Join(err, describeErr))
			}
			continue
		}
		if err != nil {
			return err
		}
		for rest := got.Batches; len(rest) > 0; {
			var batch []byte
			if batch, rest, err = recordbatch.Next(rest); err != nil {
				return err
			}
			for record, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
				if err != nil {
					return err
				}
				if prefix, _, _ := strings.Cut(string(record.Value), "-"); prefix != fmt.Sprint(record.Offset) {
					return fmt.Errorf("offset %d has record %s", record.Offset, prefix)
				}
			}
		}
		if len(got.Batches) > 0 && got.Next <= offset {
			return fmt.Errorf("read %d bytes at %d and goes on at %d", len(got.Batches), offset, got.Next)
		}
		offset = got.Next
	}
	return nil
}

// Readers notice nothing while segments go to cold storage, leave the disk and are
// deleted, and the owner writes on.
func TestReadersBesideTiering(t *testing.T) {
	const records = 400
	for name, config := range map[string]map[string]string{
		"all stays":     {"retention.ms": "-1"},
		"retention too": {"retention.ms": "-1", "retention.bytes": "20000"},
	} {
		t.Run(name, func(t *testing.T) {
			store, topic := coldtest.New(), uuid.New()
			o := coldOptions(memfs.New(), store)
			o.Cold.CacheBytes = 6 << 10
			r := start(t, o)
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, config, 1)}))
			p := r.partition(topic, 0)
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					if err := follow(p, records); err != nil {
						t.Errorf("reader: %v", err)
					}
				})
			}
			written := make(chan struct{})
			group.Go(func() {
				defer close(written)
				for i := range records {
					if _, err := appendTo(p, batchOf(t, fmt.Sprintf("%d-%s", i, strings.Repeat("x", i*7%300)))); err != nil {
						t.Errorf("append: %v", err)
					}
				}
			})
			group.Go(func() {
				for done := false; !done; {
					select {
					case <-written:
						done = true
					default:
					}
					for _, pass := range []Pass{Tiering, Retention} {
						failures, err := r.RunPass(context.Background(), pass, true)
						if err != nil || len(failures) > 0 {
							t.Errorf("pass: %v %v", failures, err)
						}
					}
				}
			})
			group.Wait()
			require.NoError(t, follow(p, records))
			d, err := p.Describe(t.Context())
			require.NoError(t, err)
			require.Len(t, store.Names(), len(d.View.State.Cold.Segments()))
			require.Equal(t, 1, d.Segments)
			require.Positive(t, store.Count(coldtest.ReadAt))
		})
	}
}
