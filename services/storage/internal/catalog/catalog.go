// Package catalog keeps what a node was told to hold: topics, their configs and
// the replicas of their partitions. It is one file, appended to, so that a topic
// costs one write and one sync, however many partitions it has.
//
//	   0  "SLUICECT" version:u32
//	 512  note:     synced:u64  crc32c:u32
//	1024  frames:   length:u32  crc32c:u32  records
//	records:        each length:varint  persist.v1.CatalogRecord
//
// Numbers are little-endian; a CRC is over the note's number, or over the records'
// bytes. The last record of a topic counts.
//
// # Torn or damaged
//
// A frame is what was written and synced at once: a power cut may keep any part of
// it, so that with a frame for each record a bad one before a good one would not
// prove anything. As it is, each frame is synced before the next begins, and before
// it is answered. After that the note says how far frames are synced; it is not
// synced itself, so it is exact after a kill, perhaps old after a power cut, never
// ahead. A bad frame below the note, or before a good one, is damage, and the node
// refuses to start: nothing is deleted or forgotten because metadata is absent. Any
// other bad frame is a torn tail that was never acknowledged, and is cut.
//
// # A disk that refuses
//
// After a failed write or sync nobody knows what the file holds: the kernel may
// have dropped the pages and call the next sync a success. So nothing is appended
// to it any more. The next change first writes all that was acknowledged, which is
// in memory, to a new file and puts that in the old one's place; until that
// succeeds changes are refused, and what the node holds is served. The file is
// written anew in the same way when most of it is dead.
//
// # Removed for good
//
// A placement can arrive after the removal that was decided after it: its caller
// gave up waiting and it was still on its way. Ids of topics are never used again,
// so what was removed is refused. Only so many removals are remembered: of the
// oldest there remains the highest revision, and a topic that is not held and whose
// row is older than that is refused like them.
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/uuid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
)

const (
	// rewriteFrom is the size up to which a file may be dead for the most part.
	rewriteFrom = 1 << 20
	// maxRemoved is how many removals are remembered one by one: some megabytes.
	maxRemoved = 1 << 16
)

// ErrClosed refuses changes of a catalog that was closed.
var ErrClosed = errors.New("catalog is closed")

// Catalog is an open catalog. Methods may be called by several goroutines.
type Catalog struct {
	fs  vfs.FS
	dir string
	// keep is how many removals are remembered one by one.
	keep int

	mu struct {
		sync.Mutex
		file vfs.File
		// size is the end of the last whole frame, all of which are synced.
		size int64
		// fresh is the size that the file had, or would have, written anew.
		fresh int64
		// unsure is set when a write failed: what the file holds is then unknown,
		// and it is written anew before the next change.
		unsure bool
		closed bool

		topics map[uuid.UUID]*persistv1.CatalogTopic
		// removed are topics whose data is to be deleted, or is already, with the
		// revision at which each was deleted. They are kept, so that a folder left
		// by a crash is known for what it is, and a late placement too. No id is in
		// both maps.
		removed map[uuid.UUID]int64
		// forgotten is the highest revision of removals that are not in removed any
		// more.
		forgotten int64
		// cold are removed topics whose objects in cold storage are to be deleted.
		cold map[uuid.UUID]struct{}
	}
}

// Open opens the catalog in a folder, or makes an empty one.
func Open(fsys vfs.FS, dir string) (*Catalog, error) { return open(fsys, dir, maxRemoved) }

func open(fsys vfs.FS, dir string, keep int) (*Catalog, error) {
	c := &Catalog{fs: fsys, dir: dir, keep: keep}
	c.mu.topics = map[uuid.UUID]*persistv1.CatalogTopic{}
	c.mu.removed = map[uuid.UUID]int64{}
	c.mu.cold = map[uuid.UUID]struct{}{}
	path := filepath.Join(dir, fileName)
	file, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := c.rewriteLocked(); err != nil {
			return nil, fmt.Errorf("make catalog %s: %w", path, err)
		}
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	c.mu.file = file
	if err := c.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open catalog %s: %w", path, err), c.mu.file.Close())
	}
	return c, nil
}

// load reads the file and cuts a torn last frame. After a kill what it finds may
// stand in the page cache alone, and a topic that it tells of is written to
// without another word to the catalog: so it is synced first.
func (c *Catalog) load() error {
	size, err := c.mu.file.Size()
	if err != nil {
		return err
	}
	content := make([]byte, size)
	if n, err := c.mu.file.ReadAt(content, 0); int64(n) < size {
		return fmt.Errorf("read %d of %d bytes: %w", n, size, err)
	}
	found, err := parse(content)
	if err != nil {
		return err
	}
	for _, record := range found.records {
		c.applyLocked(record)
	}
	c.forgetLocked()
	c.mu.size = found.end
	if found.end < size {
		if err := c.mu.file.Truncate(found.end); err != nil {
			return fmt.Errorf("cut torn frame: %w", err)
		}
	}
	if err := c.mu.file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if c.mu.fresh = c.mu.size; c.mu.size > rewriteFrom {
		live, err := c.encodeLocked()
		if err != nil {
			return err
		}
		c.mu.fresh = int64(len(live))
	}
	if found.version != version || c.grownLocked() {
		return c.rewriteLocked()
	}
	return c.noteLocked()
}

// Topics returns what the node holds. The messages must not be changed.
func (c *Catalog) Topics() []*persistv1.CatalogTopic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.mu.topics))
}

// Removed tells whether a topic was removed and its data is to go. What was
// removed very long ago is not known any more.
func (c *Catalog) Removed(id uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mu.removed[id]
	return ok
}

// Refuses tells whether a topic must not be placed as of a revision of its row: it
// was removed, or may have been.
func (c *Catalog) Refuses(id uuid.UUID, revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.topics[id] != nil {
		return false
	}
	_, removed := c.mu.removed[id]
	return removed || revision < c.mu.forgotten
}

// Put notes topics, durably. The catalog keeps the messages.
func (c *Catalog) Put(topics ...*persistv1.CatalogTopic) error {
	records := make([]*persistv1.CatalogRecord, len(topics))
	for i, topic := range topics {
		records[i] = topicRecord(topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addLocked(records)
}

// Remove notes, durably, that topics are to go, whether they are held or not: each
// was deleted at that revision or before. Their data may then be deleted, and of
// those in cold their objects in cold storage. Removing what is removed changes
// nothing.
func (c *Catalog) Remove(revision int64, ids, cold []uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var records []*persistv1.CatalogRecord
	for _, id := range ids {
		if _, removed := c.mu.removed[id]; removed {
			continue
		}
		records = append(records, removalRecord(id, revision))
		if slices.Contains(cold, id) {
			records = append(records, coldRecord(id))
		}
	}
	return c.addLocked(records)
}

// ColdTopics are the removed topics whose objects in cold storage are to be
// deleted.
func (c *Catalog) ColdTopics() []uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.mu.cold))
}

// ColdGone notes that a removed topic has no objects any more.
func (c *Catalog) ColdGone(id uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addLocked([]*persistv1.CatalogRecord{{Kind: &persistv1.CatalogRecord_ColdGoneTopicId{ColdGoneTopicId: id[:]}}})
}

func coldRecord(id uuid.UUID) *persistv1.CatalogRecord {
	return &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_ColdTopicId{ColdTopicId: id[:]}}
}

func topicRecord(topic *persistv1.CatalogTopic) *persistv1.CatalogRecord {
	return &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_Topic{Topic: topic}}
}

func removalRecord(id uuid.UUID, revision int64) *persistv1.CatalogRecord {
	return &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_Removal{
		Removal: &persistv1.CatalogRemoval{TopicId: id[:], Revision: revision},
	}}
}

func (c *Catalog) addLocked(records []*persistv1.CatalogRecord) error {
	if c.mu.closed {
		return ErrClosed
	}
	if len(records) == 0 {
		return nil
	}
	frame, err := appendFrame(nil, records...)
	if err != nil {
		return err
	}
	if c.mu.unsure {
		if err := c.rewriteLocked(); err != nil {
			return fmt.Errorf("write catalog anew after a failure: %w", err)
		}
	}
	if err := c.appendLocked(frame); err != nil {
		c.mu.unsure = true
		return err
	}
	for _, record := range records {
		c.applyLocked(record)
	}
	c.forgetLocked()
	// The change is durable, whatever becomes of the following; the next one
	// comes upon what failed.
	if c.noteLocked() != nil || c.grownLocked() && c.rewriteLocked() != nil {
		c.mu.unsure = true
	}
	return nil
}

func (c *Catalog) appendLocked(frame []byte) error {
	if _, err := c.mu.file.WriteAt(frame, c.mu.size); err != nil {
		return fmt.Errorf("write catalog: %w", err)
	}
	if err := c.mu.file.Datasync(); err != nil {
		return fmt.Errorf("sync catalog: %w", err)
	}
	c.mu.size += int64(len(frame))
	return nil
}

func (c *Catalog) noteLocked() error {
	if _, err := c.mu.file.WriteAt(appendNote(nil, c.mu.size), noteAt); err != nil {
		return fmt.Errorf("note in catalog: %w", err)
	}
	return nil
}

func (c *Catalog) applyLocked(record *persistv1.CatalogRecord) {
	switch kind := record.GetKind().(type) {
	case *persistv1.CatalogRecord_Topic:
		if id, err := uuid.FromBytes(kind.Topic.GetTopicId()); err == nil {
			c.mu.topics[id] = kind.Topic
			delete(c.mu.removed, id)
		}
	case *persistv1.CatalogRecord_RemovedTopicId:
		c.applyRemovalLocked(kind.RemovedTopicId, 0)
	case *persistv1.CatalogRecord_Removal:
		c.applyRemovalLocked(kind.Removal.GetTopicId(), kind.Removal.GetRevision())
	case *persistv1.CatalogRecord_ForgottenRevision:
		c.mu.forgotten = max(c.mu.forgotten, kind.ForgottenRevision)
	case *persistv1.CatalogRecord_ColdTopicId:
		if id, err := uuid.FromBytes(kind.ColdTopicId); err == nil {
			c.mu.cold[id] = struct{}{}
		}
	case *persistv1.CatalogRecord_ColdGoneTopicId:
		if id, err := uuid.FromBytes(kind.ColdGoneTopicId); err == nil {
			delete(c.mu.cold, id)
		}
	}
}

func (c *Catalog) applyRemovalLocked(topicID []byte, revision int64) {
	if id, err := uuid.FromBytes(topicID); err == nil {
		delete(c.mu.topics, id)
		c.mu.removed[id] = revision
	}
}

// forgetLocked forgets the oldest removals when there are too many, a quarter at
// once, so that they are not sorted with each. The file has them until it is
// written anew, and a start forgets them again.
func (c *Catalog) forgetLocked() {
	if len(c.mu.removed) <= c.keep {
		return
	}
	byAge := slices.SortedFunc(maps.Keys(c.mu.removed), func(a, b uuid.UUID) int {
		return cmp.Compare(c.mu.removed[a], c.mu.removed[b])
	})
	for _, id := range byAge[:len(byAge)-c.keep*3/4] {
		c.mu.forgotten = max(c.mu.forgotten, c.mu.removed[id])
		delete(c.mu.removed, id)
	}
}

// Close closes the file. Everything is durable already.
func (c *Catalog) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil
	}
	c.mu.closed = true
	return c.mu.file.Close()
}
