package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// Name is the journal's file name. A new one is written under NewName; a crash
// may leave it, and nobody needs it then.
const (
	Name    = "journal"
	NewName = "journal.new"
)

// A file is compacted once it is larger than compactFrom and has doubled since
// it was written anew.
const compactFrom = 16 << 10

// Journal is an open journal. It holds a file handle from the first append or
// note until Sleep.
type Journal struct {
	fs  vfs.FS
	dir string

	file  vfs.File // nil while asleep
	salt  salt
	note  Note
	fresh int64 // size when the file was written anew

	buf []byte
}

// ErrSync marks an error of a sync: what the file holds now is not known.
var ErrSync = errors.New("sync failed")

// Create writes a journal that holds a table, in place of one that may be there,
// and makes its name durable. Note.Synced is that of the active segment.
func Create(fsys vfs.FS, dir string, t *Table, n Note) (*Journal, error) {
	j := &Journal{fs: fsys, dir: dir}
	if err := j.writeAnew(t, n); err != nil {
		j.Sleep()
		return nil, err
	}
	return j, nil
}

// Open replays the journal of a folder. The error is fs.ErrNotExist if there is
// none. Unless the journal was left clean, Open makes sure that all it replayed
// is durable, and cuts a torn tail; it tells how many bytes.
func Open(fsys vfs.FS, dir string) (j *Journal, t *Table, n Note, torn int64, err error) {
	r, size, err := load(fsys, dir)
	if err != nil {
		return nil, nil, Note{}, 0, err
	}
	j = &Journal{fs: fsys, dir: dir, salt: r.salt, note: r.note, fresh: r.end}
	j.note.end = r.end
	if r.table.Clean && !r.torn {
		return j, &r.table, r.note, 0, nil
	}
	if err := j.settle(r.torn); err != nil {
		j.Sleep()
		return nil, nil, Note{}, 0, err
	}
	return j, &r.table, r.note, max(0, size-r.end), nil
}

// load reads and replays a whole journal file.
func load(fsys vfs.FS, dir string) (*replayed, int64, error) {
	f, err := fsys.OpenRead(path.Join(dir, Name))
	if err != nil {
		return nil, 0, fmt.Errorf("open journal: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, 0, fmt.Errorf("size of journal: %w", err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, 0, fmt.Errorf("read journal: %w", noEOF(err))
	}
	r, err := replay(b)
	return r, size, err
}

func noEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// settle makes what was replayed durable. After a kill it may stand in the page
// cache alone: an unsynced vote must not be acted upon, nor an unsynced name
// hide what is written from now on.
func (j *Journal) settle(torn bool) error {
	if err := j.wake(); err != nil {
		return err
	}
	if torn {
		if err := j.file.Truncate(j.note.end); err != nil {
			return fmt.Errorf("cut torn journal: %w", err)
		}
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("%w: journal: %w", ErrSync, err)
	}
	return j.syncDir()
}

func (j *Journal) syncDir() error {
	if err := j.fs.SyncDir(j.dir); err != nil {
		return fmt.Errorf("%w: folder of journal: %w", ErrSync, err)
	}
	return nil
}

func (j *Journal) wake() error {
	if j.file != nil {
		return nil
	}
	f, err := j.fs.Open(path.Join(j.dir, Name))
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	j.file = f
	return nil
}

// Append adds records as one frame. They are durable when it returns.
func (j *Journal) Append(records ...Record) error {
	if err := j.wake(); err != nil {
		return err
	}
	b, err := j.salt.appendFrame(j.buf[:0], records)
	if err != nil {
		return err
	}
	if cap(b) <= compactFrom {
		j.buf = b
	}
	if _, err := j.file.WriteAt(b, j.note.end); err != nil {
		return fmt.Errorf("append to journal: %w", err)
	}
	if err := j.file.Datasync(); err != nil {
		return fmt.Errorf("%w: journal: %w", ErrSync, err)
	}
	j.note.end += int64(len(b))
	return j.writeNote()
}

// SetNote writes the note, unsynced.
func (j *Journal) SetNote(base, synced int64, commit uint64) error {
	if err := j.wake(); err != nil {
		return err
	}
	j.note.Base, j.note.Synced, j.note.Commit = base, synced, commit
	return j.writeNote()
}

func (j *Journal) writeNote() error {
	var b [noteSize]byte
	if _, err := j.file.WriteAt(j.salt.appendNote(b[:0], j.note), noteAt); err != nil {
		return fmt.Errorf("note in journal: %w", err)
	}
	return nil
}

// Grown says that the file is worth compacting.
func (j *Journal) Grown() bool { return j.note.end > max(compactFrom, 2*j.fresh) }

// Compact writes the file anew without what is dead in it. Its last record is
// no checkpoint afterwards.
func (j *Journal) Compact() error {
	r, _, err := load(j.fs, j.dir)
	if err != nil {
		return fmt.Errorf("compact journal: %w", err)
	}
	return j.writeAnew(&r.table, j.note)
}

// Load replays the file again, for what is not kept in memory.
func (j *Journal) Load() (*Table, error) {
	r, _, err := load(j.fs, j.dir)
	if err != nil {
		return nil, err
	}
	return &r.table, nil
}

// writeAnew replaces the file by one that holds t.
func (j *Journal) writeAnew(t *Table, n Note) error {
	records, err := t.Records()
	if err != nil {
		return err
	}
	s, err := newSalt()
	if err != nil {
		return err
	}
	// The note stands before the frame, whose end it tells.
	b, err := s.appendFrame(make([]byte, framesAt, 2*framesAt), records)
	if err != nil {
		return err
	}
	n.end = int64(len(b))
	appendHead(b[:0], s, n)

	f, err := j.fs.Create(path.Join(j.dir, NewName))
	if err != nil {
		return fmt.Errorf("create journal: %w", err)
	}
	if err := j.replaceBy(f, b); err != nil {
		return errors.Join(err, f.Close())
	}
	j.Sleep()
	j.file, j.salt, j.note, j.fresh = f, s, n, n.end
	return nil
}

func (j *Journal) replaceBy(f vfs.File, b []byte) error {
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: journal: %w", ErrSync, err)
	}
	if err := j.fs.Rename(path.Join(j.dir, NewName), path.Join(j.dir, Name)); err != nil {
		return fmt.Errorf("replace journal: %w", err)
	}
	return j.syncDir()
}

func newSalt() (salt, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("salt of journal: %w", err)
	}
	return salt(binary.LittleEndian.Uint64(b[:])), nil
}

// Sleep gives the file handle and the buffer back; the next call takes them
// again. Nothing is lost: each append was synced.
func (j *Journal) Sleep() {
	if j.file != nil {
		_ = j.file.Close() // everything was synced, so this cannot lose anything
	}
	j.file, j.buf = nil, nil
}

// Bootstrap is the table of a replica that holds nothing but its first
// configuration: a snapshot with index 1 and term 1.
func Bootstrap(cs *raftpb.ConfState) *Table {
	return &Table{
		Hard:       &raftpb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))},
		Applied:    1,
		ConfState:  cs,
		FirstIndex: 2,
		Spans:      []Span{{Term: 1, FirstIndex: 1}},
		Segments:   []Segment{newSegment(0, 2)},
		Checkpoint: true,
	}
}
