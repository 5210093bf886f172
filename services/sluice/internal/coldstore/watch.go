package coldstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"time"

	"github.com/sluiceio/sluice/services/kit/backoff"
)

const (
	// tidyEvery is how often what the dead left is looked for, and how old it has
	// to be: older than any upload that is under way.
	tidyEvery = 24 * time.Hour
	// again is how long a store that cannot be used is left alone at first, and at
	// most.
	again, againMost = time.Second, time.Minute
	// checkTime is how long a look at the store may take.
	checkTime = 15 * time.Second
)

// Watch writes, reads and deletes an object until that succeeds once, and says in
// the log how it goes: so an operator learns at the start what is wrong with the
// store, and when it is not any more. Then it tidies up once a day. It ends with
// ctx.
//
// A store that cannot be used does not stop a node. What is on its disk is served,
// and a cluster that could not be restarted while a bucket is away would be worse
// off than one that uploads later.
func (c *Cold) Watch(ctx context.Context, node string, logger *slog.Logger) error {
	logger = logger.With("cold_storage", c.name)
	wait := backoff.New(backoff.Policy{Initial: again, Max: againMost})
	for {
		err := c.check(ctx, node)
		if err == nil {
			logger.InfoContext(ctx, "cold storage can be used")
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		logger.ErrorContext(ctx, "cold storage cannot be used; what is on disk is served, nothing is uploaded or dropped", "error", err)
		if wait.Wait(ctx) != nil {
			return nil
		}
	}
	daily := time.NewTicker(tidyEvery)
	defer daily.Stop()
	for {
		c.tidyUp(ctx, logger)
		select {
		case <-ctx.Done():
			return nil
		case <-daily.C:
		}
	}
}

func (c *Cold) tidyUp(ctx context.Context, logger *slog.Logger) {
	if c.tidy == nil {
		return
	}
	gone, err := c.tidy.Tidy(ctx, time.Now().Add(-tidyEvery))
	if err != nil && ctx.Err() == nil {
		logger.WarnContext(ctx, "uploads that nobody will end stay in cold storage", "error", err)
	}
	if gone > 0 {
		logger.InfoContext(ctx, "took back uploads that nobody will end", "uploads", gone)
	}
}

// checkFolder has an object for each node that checks the store.
const checkFolder = "check/"

// check does with an object what is done with segments.
func (c *Cold) check(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	name := checkFolder + node
	wrote := []byte("sluice on node " + node + " wrote this to see whether it can\n")
	sum := crc32.Checksum(wrote, crc32.MakeTable(crc32.Castagnoli))
	if err := c.probe.Put(ctx, name, bytes.NewReader(wrote), int64(len(wrote)), sum); err != nil {
		return err
	}
	read := make([]byte, len(wrote)+1)
	n, err := c.probe.ReadAt(ctx, name, read, 0)
	if !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("read what was written: %d bytes, expected %d", n, len(wrote)), err)
	}
	if !bytes.Equal(read[:n], wrote) {
		return errors.New("what is read is not what was written")
	}
	return c.probe.Delete(ctx, name)
}
