package offsets

import (
	"context"

	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// deleteBytes limits the keys of offsets that one write of DeleteGroup removes.
const deleteBytes = 512 << 10

// DeleteGroup deletes a group that has no members, with its offsets, and returns
// when that is on disk. A group with more offsets than one write takes loses them
// in several, and what makes it a group with the last: if that is not reached, the
// group is still there to be deleted. group.ErrNotOwner, group.ErrUnknownGroup,
// group.ErrGroupNotEmpty.
func (o *Offsets) DeleteGroup(ctx context.Context, caller group.Caller, name string) error {
	number, err := o.shardOf(name)
	if err != nil {
		return err
	}
	atOnce := deleteBytes / (len(name) + 64)
	for more := true; more; {
		err := o.shards.Write(ctx, number, func(h Held) ([]shard.Record, error) {
			gone, err := h.Groups.Delete(caller, name)
			if err != nil {
				return nil, err
			}
			records := h.Offsets.of(name, atOnce)
			if more = len(records) < len(h.Offsets.groups[name]); more {
				return records, nil
			}
			return append(records, gone...), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
