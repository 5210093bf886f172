package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/catalog"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Names in the node's folder. They are on disk and must not change.
const (
	lockFile        = "lock"
	topicsFolder    = "topics"
	unclaimedFolder = "unclaimed"
)

// openAtOnce is how many partitions the node opens side by side at its start:
// few, so that the rest of the process comes up beside it. A request's partition
// does not wait behind the rest.
const openAtOnce = 2

// Options are what a node is made of. All are required.
type Options struct {
	FS vfs.FS
	// Dir is the node's folder; it is made if absent. Its parent is durable.
	Dir string
	// ID is the node's id in the cluster.
	ID     string
	Logger *slog.Logger
	Now    func() time.Time

	Defaults Defaults
	// FlushEveryRecords is how many records a sole replica may acknowledge
	// before a sync; 1 syncs before each acknowledgement.
	FlushEveryRecords int
	// Workers bounds the partitions that are written at once.
	Workers int
	// MaxAwake bounds the partitions whose logs hold file handles, two each; it
	// may be passed by Workers for a moment.
	MaxAwake int
	// MaxReadHandles bounds the handles that readers hold.
	MaxReadHandles int
	// IdleAfter is how long after its last append a partition falls asleep.
	IdleAfter time.Duration
	// MaxAppendBytes bounds the bytes of appends that wait or are written.
	MaxAppendBytes int64
	// MaxProducers bounds the idempotent producers that a partition remembers.
	MaxProducers int

	Upkeep Upkeep
	// Cold may be empty, and so may Disk.
	Cold Cold
	Disk Disk
}

// Node holds the replicas of a storage node.
type Node struct {
	options Options
	lock    io.Closer
	catalog *catalog.Catalog
	files   *raftlog.FileCache
	pool    *pool
	awake   *awakeSet
	reports reports
	reserve *reserve
	// memory holds the bytes of appends that are under way.
	memory *semaphore.Weighted
	// signals are channels with room for one answer, empty and nobody's. They are
	// the node's own, since one that was made in a test's bubble of time is of no
	// use outside of it.
	signals sync.Pool
	// sleepers are nobody's, and the node's own as well.
	sleepers sync.Pool
	upkeep   *upkeep
	// cold is cold storage, nil when there is none.
	cold *coldStorage
	// chores are short background jobs: zeros written ahead, folders deleted.
	chores sync.WaitGroup

	mu struct {
		sync.RWMutex
		topics     map[uuid.UUID]*topic
		partitions map[replica.Key]*Partition
		stopping   bool
	}
	// placing serialises changes of what the node holds.
	placing sync.Mutex
	// deleting are the removed topics whose data is on its way out; each is
	// closed when it is gone, or cannot go. Guarded by placing.
	deleting map[uuid.UUID]<-chan struct{}
}

// Open opens a node's folder and takes it for this process. Replicas are opened
// by Run, or by the first request for them. vfs.ErrLocked when another process
// has the folder.
func Open(options Options) (_ *Node, err error) {
	n := &Node{
		options:  options,
		files:    raftlog.NewFileCache(options.MaxReadHandles),
		pool:     newPool(options.Workers),
		awake:    newAwakeSet(options.MaxAwake, options.IdleAfter, options.Now),
		memory:   semaphore.NewWeighted(options.MaxAppendBytes),
		upkeep:   newUpkeep(),
		sleepers: sync.Pool{New: newSleeper},
		signals:  sync.Pool{New: func() any { return make(chan struct{}, 1) }},
		cold:     newColdStorage(options.Cold),
		reserve:  newReserve(options),
	}
	n.deleting = map[uuid.UUID]<-chan struct{}{}
	n.mu.topics = map[uuid.UUID]*topic{}
	n.mu.partitions = map[replica.Key]*Partition{}
	if err := options.FS.MkdirAll(filepath.Join(options.Dir, topicsFolder)); err != nil {
		return nil, fmt.Errorf("make storage folder: %w", err)
	}
	for _, parent := range []string{options.Dir, filepath.Dir(options.Dir)} {
		if err := options.FS.SyncDir(parent); err != nil {
			return nil, fmt.Errorf("sync storage folder: %w", err)
		}
	}
	if n.lock, err = options.FS.Lock(filepath.Join(options.Dir, lockFile)); err != nil {
		return nil, fmt.Errorf("lock storage folder %s: %w", options.Dir, err)
	}
	if n.catalog, err = catalog.Open(options.FS, options.Dir); err != nil {
		return nil, errors.Join(err, n.lock.Close())
	}
	if err := n.load(); err != nil {
		return nil, errors.Join(err, n.catalog.Close(), n.lock.Close())
	}
	return n, nil
}

// load takes over what the catalog has and looks which partitions have folders.
func (n *Node) load() error {
	for _, record := range n.catalog.Topics() {
		if _, err := n.adopt(record); err != nil {
			return fmt.Errorf("catalog topic %q: %w", record.GetName(), err)
		}
	}
	names, err := n.options.FS.List(filepath.Join(n.options.Dir, topicsFolder))
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, name := range names {
		if err := n.loadFolder(name); err != nil {
			return fmt.Errorf("topic folder %s: %w", name, err)
		}
	}
	return nil
}

// loadFolder decides on a topic's folder: ours, left over from a removal, or
// nobody's, which is set aside and never deleted.
func (n *Node) loadFolder(name string) error {
	id, err := uuid.Parse(name)
	switch {
	case err == nil && n.catalog.Removed(id):
		return n.options.FS.RemoveAll(n.topicFolder(name))
	case err != nil || n.mu.topics[id] == nil:
		return n.setAside(n.topicFolder(name), name)
	}
	folders, err := n.options.FS.List(n.topicFolder(name))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		// A log receives a snapshot in a folder beside its own, under its name
		// with a suffix, and looks after it. One that was being installed may be
		// all there is of the log.
		name, staging := strings.CutSuffix(folder, ".staging")
		name = strings.TrimSuffix(name, ".install")
		number, err := strconv.ParseInt(name, 10, 32)
		p := n.mu.partitions[replica.Key{Topic: id, Partition: int32(number)}]
		switch {
		case err != nil || p == nil:
			if err := n.setAside(filepath.Join(n.topicFolder(id.String()), folder), id.String()+"-"+folder); err != nil {
				return err
			}
		case !staging:
			p.written.Store(true)
		}
	}
	return nil
}

func (n *Node) setAside(path, name string) error {
	dir := filepath.Join(n.options.Dir, unclaimedFolder)
	if err := n.options.FS.MkdirAll(dir); err != nil {
		return err
	}
	to := filepath.Join(dir, fmt.Sprintf("%s.%d", name, n.options.Now().UnixMilli()))
	n.options.Logger.Error("folder that no catalog record claims is set aside", "folder", path, "to", to)
	if err := n.options.FS.Rename(path, to); err != nil {
		return err
	}
	return errors.Join(n.options.FS.SyncDir(filepath.Dir(path)), n.options.FS.SyncDir(dir))
}

// Run opens the replicas, keeps the node going until the context ends, and then
// stops it cleanly.
func (n *Node) Run(ctx context.Context) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	var helpers sync.WaitGroup
	// Each keeps what is true of the node from one step to the next: after a panic in
	// one the node stops.
	help := func(do func(context.Context)) {
		confine.Go(&helpers, n.options.Logger, end, func() { do(running) })
	}
	help(n.awake.run)
	help(n.openAll)
	for pass, interval := range n.options.Upkeep.Intervals {
		help(func(ctx context.Context) { n.runPasses(ctx, pass, interval) })
	}
	<-running.Done()
	helpers.Wait()
	if ctx.Err() == nil {
		return errors.Join(context.Cause(running), n.stop())
	}
	return n.stop()
}

// openAll opens every written partition, so that damage is found early and the
// first request for a partition need not wait.
func (n *Node) openAll(ctx context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openAtOnce)
	for _, p := range n.Partitions() {
		if ctx.Err() != nil {
			break
		}
		if p.written.Load() && p.open.Load() == nil {
			group.Go(func() error {
				// A failure is logged and kept by the partition itself.
				_ = p.await(false, func(*replica.Replica) error { return nil })
				return nil
			})
		}
	}
	_ = group.Wait()
}

// stop closes every replica with a clean-stop marker and gives the folder back.
func (n *Node) stop() error {
	n.upkeep.stop()
	// Not while a placement or a removal is half done.
	n.placing.Lock()
	n.mu.Lock()
	n.mu.stopping = true
	n.mu.Unlock()
	n.placing.Unlock()
	var (
		mu     sync.Mutex
		failed error
		group  errgroup.Group
	)
	group.SetLimit(n.options.Workers)
	for _, p := range n.Partitions() {
		group.Go(func() error {
			if err := p.stop(); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait()
	n.pool.end()
	n.chores.Wait()
	n.cold.close()
	return errors.Join(failed, n.catalog.Close(), n.lock.Close())
}

// stop closes the replica cleanly. What still waits is refused.
func (p *Partition) stop() error {
	var failed error
	<-p.end(ErrStopping, func(r *replica.Replica) { failed = p.wrap("stop", r.Stop()) })
	return failed
}

// Partition returns a partition that the node holds, or ErrUnknownPartition.
func (n *Node) Partition(key replica.Key) (*Partition, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if p := n.mu.partitions[key]; p != nil {
		return p, nil
	}
	if n.mu.stopping {
		return nil, ErrStopping
	}
	return nil, ErrUnknownPartition
}

// Partitions returns all partitions, in no order.
func (n *Node) Partitions() []*Partition {
	n.mu.RLock()
	defer n.mu.RUnlock()
	partitions := make([]*Partition, 0, len(n.mu.partitions))
	for _, p := range n.mu.partitions {
		partitions = append(partitions, p)
	}
	return partitions
}

// background runs a chore on a goroutine that stop waits for.
func (n *Node) background(chore func()) { confine.Go(&n.chores, n.options.Logger, nil, chore) }

// adopt makes the partitions of a catalog record that are not there yet, and
// sets the topic's config.
func (n *Node) adopt(record *persistv1.CatalogTopic) ([]*Partition, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, err := uuid.FromBytes(record.GetTopicId())
	if err != nil {
		return nil, err
	}
	t := n.mu.topics[id]
	if t == nil {
		if t, err = newTopic(record, n.options.Defaults); err != nil {
			return nil, err
		}
		n.mu.topics[id] = t
	} else {
		t.config.Store(resolve(record.GetConfig(), n.options.Defaults))
	}
	var added []*Partition
	for _, placed := range record.GetPartitions() {
		key := replica.Key{Topic: id, Partition: placed.GetPartition()}
		if n.mu.partitions[key] != nil {
			continue
		}
		p := &Partition{node: n, topic: t, key: key, id: placed.GetReplicaId()}
		for i, voter := range placed.GetVoterIds() {
			p.voters = append(p.voters, Voter{ID: voter, Node: placed.GetVoterNodes()[i]})
		}
		p.reported = p.report()
		n.mu.partitions[key] = p
		added = append(added, p)
	}
	return added, nil
}
