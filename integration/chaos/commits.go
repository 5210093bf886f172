package chaos

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// committer commits ever larger offsets of a group, one after the other.
type committer struct {
	api       *httpapi.Client
	group     string
	topic     string
	partition int
	// tried is the last offset that was sent, acked the last that was
	// acknowledged: acked <= tried <= acked+1. -1 before the first.
	tried, acked int64
}

func newCommitter(api *httpapi.Client, group, topic string, partition int) *committer {
	return &committer{api: api, group: group, topic: topic, partition: partition, tried: -1, acked: -1}
}

// run returns with the first error.
func (c *committer) run(ctx context.Context) error {
	for {
		c.tried = c.acked + 1
		if err := c.api.Commit(ctx, c.group, c.topic, c.partition, c.tried); err != nil {
			return err
		}
		c.acked = c.tried
	}
}

// check reads the committed offset back and goes on from it.
func (c *committer) check(ctx context.Context) error {
	offsets, err := c.api.Offsets(ctx, c.group)
	if err != nil {
		return err
	}
	got, ok := offsets[c.topic][c.partition]
	if !ok {
		got = -1
	}
	if got < c.acked || got > c.tried {
		return fmt.Errorf("group %s, partition %d: committed %d, tried %d, read back %d", c.group, c.partition, c.acked, c.tried, got)
	}
	c.acked, c.tried = got, got
	return nil
}
