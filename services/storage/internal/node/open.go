package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// reopenPause is how long a replica whose disk refused a write waits before it
// is opened anew, or, if it reads on, before an append is tried again.
const reopenPause = time.Second

// ownerOpen returns the partition's replica, opening it first if need be. It is
// nil, without an error, for an unwritten partition that is not to be created. A
// replica that reads on comes with the reason for which appends are refused, if
// there are any: create is what tells.
func (p *Partition) ownerOpen(create bool) (*replica.Replica, error) {
	r, f := p.open.Load(), p.failure.Load()
	switch {
	case f == nil && r != nil:
		return r, nil
	case f == nil:
	case f.paused(p.node.options.Now()):
		if r != nil && !create {
			return r, nil
		}
		return r, f.err
	case r != nil:
		if create {
			p.failure.Store(nil)
		}
		return r, nil
	}
	if !p.written.Load() && !create {
		return nil, nil
	}
	r, err := p.ownerOpenAnew()
	if err == nil {
		p.failure.Store(nil)
	}
	return r, err
}

// paused tells that it is not time yet to try again.
func (f *failure) paused(now time.Time) bool { return f.retry.IsZero() || now.Before(f.retry) }

// ownerOpenAnew opens the replica from what is on disk. The failure that was the
// reason for it is the caller's to clear.
func (p *Partition) ownerOpenAnew() (_ *replica.Replica, err error) {
	defer p.ownerRecover(func(failed error) { err = failed })
	log, err := p.openLog()
	if err != nil {
		return nil, p.ownerRefuse(err)
	}
	r, err := replica.New(replica.Options{
		Key:        p.key,
		ID:         p.id,
		Log:        log,
		Logger:     p.node.options.Logger,
		Now:        p.node.options.Now,
		FlushEvery: p.node.options.FlushEveryRecords,
		Committed:  p.watchers.wake,
		Producers:  producer.Bounds{Max: p.node.options.MaxProducers},
	})
	if err != nil {
		return nil, p.ownerRefuse(errors.Join(err, log.Close(nil)))
	}
	// After New, which is who takes the recovered state.
	if err := p.settle(log); err != nil {
		return nil, p.ownerRefuse(errors.Join(err, r.Abandon()))
	}
	p.open.Store(r)
	p.watchers.wake()
	return r, nil
}

// openLog opens the log, or makes it when the partition was never written.
func (p *Partition) openLog() (*raftlog.Log, error) {
	options := raftlog.Options{
		FS:          p.node.options.FS,
		Dir:         p.node.folder(p.key),
		Logger:      p.node.options.Logger.With("topic", p.topic.name, "partition", p.key.Partition),
		Limits:      p.limits,
		Now:         p.node.options.Now,
		Replicated:  len(p.voters) > 1,
		Scheduler:   p.node.background,
		DeleteGrace: p.node.options.Upkeep.DeleteGrace,
		Files:       p.node.files,
	}
	if p.written.Load() {
		log, err := raftlog.Open(options)
		if !errors.Is(err, fs.ErrNotExist) {
			return log, err
		}
		// The folder is there and the log is not: its making was cut short,
		// before anything was acknowledged.
	}
	if err := p.topic.makeFolder(p.node); err != nil {
		return nil, err
	}
	conf := &raftpb.ConfState{}
	for _, voter := range p.voters {
		conf.Voters = append(conf.Voters, voter.ID)
	}
	log, err := raftlog.Create(options, raftlog.Bootstrap{ConfState: conf})
	if err == nil {
		p.written.Store(true)
	}
	return log, err
}

// settle makes the name of an opened log's folder durable. After a kill it may
// stand in the page cache alone; a log that rests had it durable.
func (p *Partition) settle(log *raftlog.Log) error {
	if log.Recovered().Clean {
		return nil
	}
	if err := p.node.options.FS.SyncDir(p.node.topicFolder(p.topic.id.String())); err != nil {
		return fmt.Errorf("%w: topic folder: %w", raftlog.ErrSyncFailed, err)
	}
	return nil
}

func (p *Partition) limits() raftlog.Limits {
	config := p.Config()
	return raftlog.Limits{
		SegmentBytes:  config.SegmentBytes,
		SegmentMs:     config.SegmentMs,
		IndexInterval: config.IndexIntervalBytes,
	}
}

// ownerFail takes a replica that has failed out of service and returns why it
// serves nothing. One that had no room for a write is opened again at once, to be
// read: that needs none, since it cuts what is torn and the zeros that were written
// ahead. Until the pause is over it takes no appends.
func (p *Partition) ownerFail(r *replica.Replica, err error) error {
	// Not failed before it is open again: so whoever reads meanwhile waits for the owner.
	p.failure.Store(nil)
	p.open.Store(nil)
	p.node.awake.remove(p)
	f := p.fails(errors.Join(err, r.Abandon()))
	if outOfSpace(f.err) && !f.retry.IsZero() {
		if _, failed := p.ownerOpenAnew(); failed != nil {
			return f.err
		}
	}
	p.ownerNote(f)
	return f.err
}

// ownerRefuse notes why the partition serves nothing, and returns it.
func (p *Partition) ownerRefuse(err error) error {
	f := p.fails(err)
	p.ownerNote(f)
	return f.err
}

// fails makes and logs a failure. Damage, and a sync that failed (what the page cache
// holds is then unknown), are final; a write that the disk refused is tried again after
// a pause, from what is on disk.
func (p *Partition) fails(err error) *failure {
	f := &failure{err: &FailureError{Node: p.node.options.ID, Err: diskFailure(err)}}
	if !errors.Is(err, raftlog.ErrDamaged) && !errors.Is(err, raftlog.ErrSyncFailed) {
		f.retry = p.node.options.Now().Add(reopenPause)
	}
	p.node.options.Logger.Error("partition has failed",
		"topic", p.topic.name, "partition", p.key.Partition, "retried", !f.retry.IsZero(), "error", f.err)
	return f
}

func (p *Partition) ownerNote(f *failure) {
	p.failure.Store(f)
	p.watchers.wake()
}

// empty tells that a failure was to make the partition's folder on a disk that is full:
// it is as empty as it was, and read as such.
func (p *Partition) empty(f *failure) bool { return outOfSpace(f.err) && !p.written.Load() }

func (n *Node) folder(key replica.Key) string {
	return filepath.Join(n.topicFolder(key.Topic.String()), strconv.Itoa(int(key.Partition)))
}

func (n *Node) topicFolder(id string) string { return filepath.Join(n.options.Dir, topicsFolder, id) }
