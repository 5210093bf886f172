package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// partitionFiles are the files of one replica.
//
//	<data-dir>/storage/topics/<topic id>/<partition>/{<base>.log,<base>.index,journal}
type partitionFiles struct {
	dir string
	// logs are paths of those with batches, ascending by base; the last is the
	// active one. A crash in the middle of a roll leaves an empty one behind it,
	// which no longer counts as such once there are bytes in it.
	logs []string
}

// findPartitions returns the replicas of a data directory, sorted.
func findPartitions(dataDir string) ([]partitionFiles, error) {
	journals, err := filepath.Glob(filepath.Join(dataDir, "storage", "topics", "*", "*", "journal"))
	if err != nil {
		return nil, err
	}
	var all []partitionFiles
	for _, journal := range journals {
		p := partitionFiles{dir: filepath.Dir(journal)}
		if p.logs, err = filepath.Glob(filepath.Join(p.dir, "*.log")); err != nil {
			return nil, err
		}
		slices.Sort(p.logs)
		p.logs = slices.DeleteFunc(p.logs, isEmpty)
		if len(p.logs) > 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}

// holds says whether a log of the replica contains a text.
func (p partitionFiles) holds(text string) bool {
	for _, path := range p.logs {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			return true
		}
	}
	return false
}

// batchesEnd returns the bytes of a log and where its last batch ends; behind it
// are zeros, if anything.
func batchesEnd(path string) (b []byte, end int, err error) {
	if b, err = os.ReadFile(path); err != nil {
		return nil, 0, err
	}
	for end < len(b) {
		h, err := recordbatch.ParseHeader(b[end:])
		if err != nil || end+h.Size() > len(b) || recordbatch.CheckCRC(b[end:end+h.Size()]) != nil {
			break
		}
		end += h.Size()
	}
	return b, end, nil
}

// writeAt writes into an existing file.
func writeAt(path string, b []byte, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Close())
}

// appendTo writes behind the end of a file.
func appendTo(path string, b []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return writeAt(path, b, info.Size())
}

// flipByte changes one byte of a file.
func flipByte(path string, at int64) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return writeAt(path, []byte{^b[at]}, at)
}

func noise(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// leftover is something that a crash can leave behind and that costs no
// acknowledged record.
type leftover struct {
	name string
	// do picks its victim in a data directory. It returns fs.ErrNotExist if
	// there is none.
	do func(random *rand.Rand, dataDir string) error
}

// onReplica makes a leftover of something that is done to a random replica.
func onReplica(name string, do func(random *rand.Rand, p partitionFiles) error) leftover {
	return leftover{name, func(random *rand.Rand, dataDir string) error {
		all, err := findPartitions(dataDir)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("replicas in %s: %w", dataDir, fs.ErrNotExist)
		}
		return do(random, all[random.IntN(len(all))])
	}}
}

// onIndex makes a leftover of something that is done to a random index file.
func onIndex(name string, do func(random *rand.Rand, path string, size int64) error) leftover {
	return onReplica(name, func(random *rand.Rand, p partitionFiles) error {
		paths, err := filepath.Glob(filepath.Join(p.dir, "*.index"))
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			return fmt.Errorf("index in %s: %w", p.dir, fs.ErrNotExist)
		}
		path := paths[random.IntN(len(paths))]
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return do(random, path, info.Size())
	})
}

var leftovers = []leftover{
	onReplica("bytes behind the active log", func(random *rand.Rand, p partitionFiles) error {
		return appendTo(p.logs[len(p.logs)-1], noise(random, 1+random.IntN(300)))
	}),
	onReplica("bytes behind the last batch", func(random *rand.Rand, p partitionFiles) error {
		path := p.logs[len(p.logs)-1]
		_, end, err := batchesEnd(path)
		if err != nil {
			return err
		}
		return writeAt(path, noise(random, 1+random.IntN(300)), int64(end))
	}),
	onReplica("half a batch behind the last one", func(random *rand.Rand, p partitionFiles) error {
		path := p.logs[len(p.logs)-1]
		b, end, err := batchesEnd(path)
		if err != nil || end == 0 {
			return err
		}
		h, err := recordbatch.ParseHeader(b)
		if err != nil {
			return err
		}
		half := slices.Clone(b[:1+random.IntN(h.Size()-1)])
		return writeAt(path, half, int64(end))
	}),
	onReplica("bytes behind the journal", func(random *rand.Rand, p partitionFiles) error {
		return appendTo(filepath.Join(p.dir, "journal"), noise(random, 1+random.IntN(200)))
	}),
	onReplica("a journal that was not renamed", func(random *rand.Rand, p partitionFiles) error {
		return os.WriteFile(filepath.Join(p.dir, "journal.new"), noise(random, 1+random.IntN(2000)), 0o600)
	}),
	onIndex("bytes behind an index", func(random *rand.Rand, path string, size int64) error {
		return appendTo(path, noise(random, 1+random.IntN(100)))
	}),
	onIndex("a cut index", func(random *rand.Rand, path string, size int64) error {
		return os.Truncate(path, random.Int64N(size+1))
	}),
	onIndex("a flipped byte in an index", func(random *rand.Rand, path string, size int64) error {
		if size == 0 {
			return fmt.Errorf("%s is empty: %w", path, fs.ErrNotExist)
		}
		return flipByte(path, random.Int64N(size))
	}),
	onIndex("an index gone", func(random *rand.Rand, path string, size int64) error { return os.Remove(path) }),
	{"bytes behind the catalog", func(random *rand.Rand, dataDir string) error {
		return appendTo(filepath.Join(dataDir, "storage", "catalog"), noise(random, 1+random.IntN(100)))
	}},
	{"a catalog that was not renamed", func(random *rand.Rand, dataDir string) error {
		return os.WriteFile(filepath.Join(dataDir, "storage", "catalog.new"), noise(random, 1+random.IntN(2000)), 0o600)
	}},
	{"a folder that nobody claims", func(random *rand.Rand, dataDir string) error {
		dir := filepath.Join(dataDir, "storage", "topics", "0195d0f2-0000-7000-8000-000000000000", "0")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "00000000000000000000.log"), noise(random, 100), 0o600)
	}},
}
