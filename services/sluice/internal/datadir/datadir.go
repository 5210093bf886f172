// Package datadir is the folder that a process keeps everything in.
//
//	<data-dir>/
//	  lock       held while a process runs; has its process id
//	  format     version of the layout, "1"
//	  node-id    who the process is in its cluster
//	  etcd/      the embedded etcd, where there is one
//	  storage/   partitions, where there are some
//
//	  bootstrap.key   secret of the first API key, until somebody deletes it
//
// The replicas in storage/ belong to the node id: a folder that was written as
// one node is never opened as another.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// formatVersion is on disk. A layout that this version cannot read gets the
// next number.
const formatVersion = 1

// Dir is a data directory that this process holds.
type Dir struct {
	path   string
	nodeID string
	lock   io.Closer
}

// Open takes a folder, which it makes if need be. With an empty nodeID the id is
// the one in the folder, or a new one; otherwise the folder must be new or have
// the same.
func Open(path, nodeID string) (dir *Dir, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := takeLock(filepath.Join(path, "lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("data directory %s is in use by %s", path, holder(filepath.Join(path, "lock")))
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	d := &Dir{path: path, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("data directory %s: %w", path, err), d.Close())
			dir = nil
		}
	}()
	if err := d.checkFormat(); err != nil {
		return nil, err
	}
	if err := d.settleNodeID(nodeID); err != nil {
		return nil, err
	}
	return d, nil
}

// NodeID is who the process is.
func (d *Dir) NodeID() string { return d.nodeID }

// Path is the absolute path of a name in the folder.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Close gives the folder back.
func (d *Dir) Close() error { return d.lock.Close() }

func takeLock(name string) (io.Closer, error) {
	lock, err := vfs.OS.Lock(name)
	if err != nil {
		return nil, err
	}
	// Only for the message that a second process prints.
	if err := os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// holder names the process that has the lock, as far as its file tells.
func holder(name string) string {
	text, err := os.ReadFile(name)
	pid := strings.TrimSpace(string(text))
	if err != nil || pid == "" {
		return "another process"
	}
	return "process " + pid
}

func (d *Dir) checkFormat() error {
	text, err := os.ReadFile(d.Path("format"))
	if errors.Is(err, fs.ErrNotExist) {
		return d.write("format", strconv.Itoa(formatVersion))
	}
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("file format is damaged: %q", text)
	}
	if version != formatVersion {
		return fmt.Errorf("written in format %d; this version of sluice knows format %d", version, formatVersion)
	}
	return nil
}

func (d *Dir) settleNodeID(wanted string) error {
	text, err := os.ReadFile(d.Path("node-id"))
	if errors.Is(err, fs.ErrNotExist) {
		if wanted == "" {
			wanted = "node-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
		}
		if err := ValidateNodeID(wanted); err != nil {
			return err
		}
		d.nodeID = wanted
		return d.write("node-id", wanted)
	}
	if err != nil {
		return err
	}
	have := strings.TrimSpace(string(text))
	if err := ValidateNodeID(have); err != nil {
		return fmt.Errorf("file node-id is damaged: %w", err)
	}
	if wanted != "" && wanted != have {
		return fmt.Errorf("belongs to node %q, not to --node-id %q", have, wanted)
	}
	d.nodeID = have
	return nil
}

var nodeIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ValidateNodeID reports what is wrong with a node's id.
func ValidateNodeID(id string) error {
	if !nodeIDs.MatchString(id) {
		return fmt.Errorf("node id %q: must be 1 to 63 letters, digits, '.', '-' and '_' that begin with a letter or digit", id)
	}
	return nil
}

// write makes a small file that is there whole and durably, or not at all.
func (d *Dir) write(name, text string) error {
	temporary := d.Path(name + ".new")
	file, err := vfs.OS.Create(temporary)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(text+"\n"), 0)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := vfs.OS.Rename(temporary, d.Path(name)); err != nil {
		return err
	}
	return vfs.OS.SyncDir(d.path)
}
