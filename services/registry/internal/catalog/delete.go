package catalog

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// maxDeletes is how many rows one transaction deletes; etcd takes 128 operations.
const maxDeletes = 100

// What callers can act on.
var (
	ErrReferenced = errs.New(errs.FailedPrecondition, "SCHEMA_REFERENCED", "another schema refers to it")
	// ErrDeletedBefore is that a version is hidden already, or a subject all of
	// whose versions are.
	ErrDeletedBefore = errs.New(errs.NotFound, "ALREADY_DELETED", "it was deleted before")
	// ErrNotDeleted is that something is to be deleted for good that is not
	// hidden.
	ErrNotDeleted = errs.New(errs.FailedPrecondition, "NOT_DELETED", "it must be deleted before it is deleted for good")
)

// Delete hides a version of a subject, its Newest, or all when number is 0; or
// deletes for good what is hidden. It returns the numbers of the versions.
// ErrUnknownSubject, ErrUnknownVersion, ErrDeletedBefore, ErrNotDeleted,
// ErrReferenced, ErrReadOnly.
func (c *Catalog) Delete(ctx context.Context, subject string, number int32, permanent bool) ([]int32, error) {
	var deleted []int32
	for {
		p, err := c.fresh(ctx)
		if err != nil {
			return nil, err
		}
		numbers, err := p.deletable(subject, number, permanent)
		if err != nil {
			// Those of an earlier transaction are deleted.
			if len(deleted) > 0 {
				return deleted, nil
			}
			return nil, err
		}
		now := numbers
		row := proto.CloneOf(p.subject(subject).row)
		var ops []clientv3.Op
		if permanent {
			now = numbers[:min(len(numbers), maxDeletes)]
			for _, n := range now {
				ops = append(ops, clientv3.OpDelete(versionKey(subject, n)))
			}
			row.DeletedVersions = slices.DeleteFunc(row.DeletedVersions, func(n int32) bool { return slices.Contains(now, n) })
		} else {
			row.DeletedVersions = append(row.DeletedVersions, now...)
		}
		ch, err := p.rewriting(row, ops...)
		if err != nil {
			return nil, err
		}
		done, err := c.commit(ctx, p, ch)
		if err != nil {
			return nil, err
		}
		if done {
			deleted = append(deleted, now...)
			if len(now) == len(numbers) {
				return deleted, nil
			}
		}
	}
}

// deletable returns the versions that a deletion is about.
func (p *picture) deletable(subject string, number int32, permanent bool) ([]int32, error) {
	s := p.subject(subject)
	if p.mode(subject) == ReadOnly {
		return nil, ErrReadOnly.WithMessage("subject %q is read-only", subject)
	}
	if _, err := s.find(Newest, true); err != nil {
		return nil, err
	}
	var numbers []int32
	if number == 0 {
		for _, v := range s.versions {
			if permanent && !v.Deleted {
				return nil, ErrNotDeleted.WithMessage("subject %q must be deleted before it is deleted for good", subject)
			}
			if v.Deleted == permanent {
				numbers = append(numbers, v.GetVersion())
			}
		}
		if len(numbers) == 0 {
			return nil, ErrDeletedBefore.WithMessage("subject %q was deleted before", subject)
		}
	} else {
		v, err := s.find(number, permanent || number != Newest)
		if err != nil {
			return nil, err
		}
		switch {
		case permanent && !v.Deleted:
			return nil, ErrNotDeleted.WithMessage("version %d of subject %q must be deleted before it is deleted for good", v.GetVersion(), subject)
		case !permanent && v.Deleted:
			return nil, ErrDeletedBefore.WithMessage("version %d of subject %q was deleted before", v.GetVersion(), subject)
		}
		numbers = []int32{v.GetVersion()}
	}
	for _, n := range numbers {
		if user, ok := p.user(subject, n, permanent); ok {
			return nil, ErrReferenced.WithMessage("version %d of subject %q refers to version %d of subject %q",
				user.GetVersion(), user.GetSubject(), n, subject)
		}
	}
	return numbers, nil
}
