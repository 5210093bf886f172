// Package catalog keeps what a node was told to hold: topics, their configs and
// the replicas of their partitions. It is one file, appended to, so that a topic
// costs one write and one sync, however many partitions it has.
//
//	"SLUICECT" version:u32
//	then frames:   length:u32  crc32c:u32  records
//	records:       each length:varint  persist.v1.CatalogRecord
//
// Numbers are little-endian; the CRC is over the records' bytes. The last record
// of a topic counts. A frame is what was written and synced at once: a power cut
// may keep any part of it, so that with a frame for each record a bad one before
// a good one would not prove anything. As it is, a torn last frame was never
// acknowledged and is cut; a bad frame before others is damage, and the node
// refuses to start: nothing is deleted or forgotten because metadata is absent.
package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
)

// The file's name and head are on disk and must not change.
const (
	fileName   = "catalog"
	magic      = "SLUICECT"
	version    = 1
	headSize   = len(magic) + 4
	frameSize  = 8
	maxFrame   = 64 << 20
	rewriteAt  = 1 << 20
	tempSuffix = ".new"
)

// ErrDamaged marks a catalog with a bad record before good ones, or a head that
// is none.
var ErrDamaged = errors.New("catalog is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Catalog is an open catalog. Methods may be called by several goroutines.
type Catalog struct {
	fs  vfs.FS
	dir string

	mu struct {
		sync.Mutex
		file vfs.File
		// size is the end of the last whole frame.
		size   int64
		topics map[uuid.UUID]*persistv1.CatalogTopic
		// removed are topics whose data is to be deleted, or is already. They
		// are kept, so that a folder left by a crash is known for what it is.
		removed map[uuid.UUID]struct{}
		// cold are removed topics whose objects in cold storage are to be deleted.
		cold map[uuid.UUID]struct{}
		// failed is set when a write failed: what is on disk is then unknown.
		failed error
	}
}

// Open opens the catalog in a folder, or makes an empty one.
func Open(fsys vfs.FS, dir string) (*Catalog, error) {
	c := &Catalog{fs: fsys, dir: dir}
	c.mu.topics = map[uuid.UUID]*persistv1.CatalogTopic{}
	c.mu.removed = map[uuid.UUID]struct{}{}
	c.mu.cold = map[uuid.UUID]struct{}{}
	path := filepath.Join(dir, fileName)
	file, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := c.rewrite(); err != nil {
			return nil, fmt.Errorf("make catalog %s: %w", path, err)
		}
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	c.mu.file = file
	if err := c.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open catalog %s: %w", path, err), file.Close())
	}
	if c.mu.size > rewriteAt && c.mu.size > 2*c.liveSize() {
		if err := c.rewrite(); err != nil {
			return nil, fmt.Errorf("rewrite catalog %s: %w", path, err)
		}
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
	records, end, err := parse(content)
	if err != nil {
		return err
	}
	for _, record := range records {
		c.applyLocked(record)
	}
	c.mu.size = end
	if end < size {
		if err := c.mu.file.Truncate(end); err != nil {
			return fmt.Errorf("cut torn frame: %w", err)
		}
	}
	if err := c.mu.file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// parse returns the records of a catalog's content and where its last whole frame
// ends.
func parse(content []byte) ([]*persistv1.CatalogRecord, int64, error) {
	if len(content) < headSize || string(content[:len(magic)]) != magic {
		return nil, 0, fmt.Errorf("%w: no head", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(content[len(magic):]); v != version {
		return nil, 0, fmt.Errorf("catalog has format %d, this version reads %d", v, version)
	}
	var records []*persistv1.CatalogRecord
	at := headSize
	for at < len(content) {
		framed, size, err := parseFrame(content[at:])
		if err != nil {
			if tornFrom(content[at:]) {
				break
			}
			return nil, 0, fmt.Errorf("%w: frame at byte %d: %w", ErrDamaged, at, err)
		}
		records = append(records, framed...)
		at += size
	}
	return records, int64(at), nil
}

func parseFrame(b []byte) ([]*persistv1.CatalogRecord, int, error) {
	if len(b) < frameSize {
		return nil, 0, errors.New("frame is cut")
	}
	length := binary.LittleEndian.Uint32(b)
	if length == 0 || length > maxFrame || int(length) > len(b)-frameSize {
		return nil, 0, fmt.Errorf("length %d does not fit", length)
	}
	body := b[frameSize : frameSize+int(length)]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0, errors.New("CRC does not match")
	}
	var records []*persistv1.CatalogRecord
	for len(body) > 0 {
		message, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return nil, 0, protowire.ParseError(n)
		}
		record := &persistv1.CatalogRecord{}
		if err := proto.Unmarshal(message, record); err != nil {
			return nil, 0, err
		}
		if record.GetKind() == nil {
			return nil, 0, errors.New("record of an unknown kind")
		}
		records = append(records, record)
		body = body[n:]
	}
	return records, frameSize + int(length), nil
}

// tornFrom tells whether bytes that begin with a bad frame hold no good one after
// it: then it was the last, and its write was cut short.
func tornFrom(b []byte) bool {
	for at := 1; at+frameSize < len(b); at++ {
		if _, _, err := parseFrame(b[at:]); err == nil {
			return false
		}
	}
	return true
}

// Topics returns what the node holds. The messages must not be changed.
func (c *Catalog) Topics() []*persistv1.CatalogTopic {
	c.mu.Lock()
	defer c.mu.Unlock()
	topics := make([]*persistv1.CatalogTopic, 0, len(c.mu.topics))
	for _, topic := range c.mu.topics {
		topics = append(topics, topic)
	}
	return topics
}

// Removed tells whether a topic was here and its data is to go.
func (c *Catalog) Removed(id uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mu.removed[id]
	return ok
}

// Put notes topics, durably. The catalog keeps the messages.
func (c *Catalog) Put(topics ...*persistv1.CatalogTopic) error {
	records := make([]*persistv1.CatalogRecord, len(topics))
	for i, topic := range topics {
		records[i] = &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_Topic{Topic: topic}}
	}
	return c.add(records)
}

// Remove notes, durably, that topics are to go. Their data may then be deleted, and
// of those in cold their objects in cold storage.
func (c *Catalog) Remove(ids, cold []uuid.UUID) error {
	var records []*persistv1.CatalogRecord
	for _, id := range ids {
		records = append(records, removal(id))
	}
	for _, id := range cold {
		records = append(records, coldRemoval(id))
	}
	return c.add(records)
}

// ColdTopics are the removed topics whose objects in cold storage are to be
// deleted.
func (c *Catalog) ColdTopics() []uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.mu.cold))
}

// IsColdTopic tells whether a topic is among ColdTopics.
func (c *Catalog) IsColdTopic(id uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mu.cold[id]
	return ok
}

// ColdGone notes that a removed topic has no objects any more.
func (c *Catalog) ColdGone(id uuid.UUID) error {
	return c.add([]*persistv1.CatalogRecord{{Kind: &persistv1.CatalogRecord_ColdGoneTopicId{ColdGoneTopicId: id[:]}}})
}

func coldRemoval(id uuid.UUID) *persistv1.CatalogRecord {
	return &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_ColdTopicId{ColdTopicId: id[:]}}
}

func removal(id uuid.UUID) *persistv1.CatalogRecord {
	return &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_RemovedTopicId{RemovedTopicId: id[:]}}
}

func (c *Catalog) add(records []*persistv1.CatalogRecord) error {
	if len(records) == 0 {
		return nil
	}
	frame, err := appendFrame(nil, records...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.failed != nil {
		return c.mu.failed
	}
	if _, err := c.mu.file.WriteAt(frame, c.mu.size); err != nil {
		c.mu.failed = fmt.Errorf("write catalog: %w", err)
		return c.mu.failed
	}
	if err := c.mu.file.Datasync(); err != nil {
		c.mu.failed = fmt.Errorf("sync catalog: %w", err)
		return c.mu.failed
	}
	c.mu.size += int64(len(frame))
	for _, record := range records {
		c.applyLocked(record)
	}
	return nil
}

func appendFrame(to []byte, records ...*persistv1.CatalogRecord) ([]byte, error) {
	var body []byte
	for _, record := range records {
		message, err := proto.Marshal(record)
		if err != nil {
			return nil, fmt.Errorf("encode catalog record: %w", err)
		}
		body = protowire.AppendBytes(body, message)
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("catalog records of %d bytes are over the limit of %d at once", len(body), maxFrame)
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(len(body)))
	to = binary.LittleEndian.AppendUint32(to, crc32.Checksum(body, castagnoli))
	return append(to, body...), nil
}

func (c *Catalog) applyLocked(record *persistv1.CatalogRecord) {
	switch kind := record.GetKind().(type) {
	case *persistv1.CatalogRecord_Topic:
		if id, err := uuid.FromBytes(kind.Topic.GetTopicId()); err == nil {
			c.mu.topics[id] = kind.Topic
			delete(c.mu.removed, id)
			delete(c.mu.cold, id)
		}
	case *persistv1.CatalogRecord_RemovedTopicId:
		if id, err := uuid.FromBytes(kind.RemovedTopicId); err == nil {
			delete(c.mu.topics, id)
			c.mu.removed[id] = struct{}{}
		}
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

func (c *Catalog) liveSize() int64 {
	size := int64(headSize)
	for _, topic := range c.mu.topics {
		size += frameSize + int64(proto.Size(topic))
	}
	return size
}

// rewrite writes what is live to a new file and puts it in the old one's place.
func (c *Catalog) rewrite() error {
	content := binary.LittleEndian.AppendUint32([]byte(magic), version)
	for _, topic := range c.mu.topics {
		var err error
		content, err = appendFrame(content, &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_Topic{Topic: topic}})
		if err != nil {
			return err
		}
	}
	for id := range c.mu.removed {
		var err error
		if content, err = appendFrame(content, removal(id)); err != nil {
			return err
		}
	}
	for id := range c.mu.cold {
		var err error
		if content, err = appendFrame(content, coldRemoval(id)); err != nil {
			return err
		}
	}
	path := filepath.Join(c.dir, fileName)
	file, err := c.fs.Create(path + tempSuffix)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Sync(); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := c.fs.Rename(path+tempSuffix, path); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := c.fs.SyncDir(c.dir); err != nil {
		return errors.Join(err, file.Close())
	}
	old := c.mu.file
	c.mu.file, c.mu.size = file, int64(len(content))
	if old != nil {
		return old.Close()
	}
	return nil
}

// Close closes the file. Everything is durable already.
func (c *Catalog) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.failed == nil {
		c.mu.failed = errors.New("catalog is closed")
	}
	return c.mu.file.Close()
}
