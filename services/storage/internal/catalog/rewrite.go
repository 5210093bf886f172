package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// grownLocked tells whether the file is worth writing anew.
func (c *Catalog) grownLocked() bool { return c.mu.size > max(rewriteFrom, 2*c.mu.fresh) }

// encodeLocked is the content of a file that holds what was acknowledged and
// nothing that is dead.
func (c *Catalog) encodeLocked() ([]byte, error) {
	content := appendHead(nil, 0)
	for _, topic := range c.mu.topics {
		var err error
		if content, err = appendFrame(content, topicRecord(topic)); err != nil {
			return nil, err
		}
	}
	gone := []*persistv1.CatalogRecord{{Kind: &persistv1.CatalogRecord_ForgottenRevision{ForgottenRevision: c.mu.forgotten}}}
	for id, revision := range c.mu.removed {
		gone = append(gone, removalRecord(id, revision))
	}
	for id := range c.mu.cold {
		gone = append(gone, coldRecord(id))
	}
	content, err := appendFrame(content, gone...)
	if err != nil {
		return nil, err
	}
	copy(content[noteAt:], appendNote(nil, int64(len(content))))
	return content, nil
}

// rewriteLocked writes what is live to a new file and puts it in the old one's
// place. After a failure either may have the name, and both hold what was
// acknowledged; but which one a power cut leaves is not known, so neither is
// appended to before the next attempt has succeeded.
func (c *Catalog) rewriteLocked() error {
	content, err := c.encodeLocked()
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, fileName)
	// A file of its own: of one that a sync failed on, the next sync may say what
	// is not so.
	if err := c.fs.Remove(path + tempSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is left of a new catalog: %w", err)
	}
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
	if c.mu.file != nil {
		// Nothing of it is needed any more, so nothing is lost with it.
		_ = c.mu.file.Close()
	}
	c.mu.file, c.mu.size, c.mu.fresh = file, int64(len(content)), int64(len(content))
	c.mu.unsure = false
	return nil
}
