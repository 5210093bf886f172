package dir

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// List walks the folders that can hold what begins with prefix. What is no
// object's name is passed over: ~partial, and what a file system keeps for
// itself, such as lost+found.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		w := &walk{ctx: ctx, store: s, prefix: prefix, yield: yield}
		if _, err := w.folder(""); err != nil {
			yield(blob.Info{}, fmt.Errorf("list objects %q: %w", prefix, err))
		}
	}
}

type walk struct {
	ctx    context.Context
	store  *Store
	prefix string
	yield  func(blob.Info, error) bool
}

// entry is a file or a folder, whose name ends in a slash: so they sort as the
// names of objects do.
type entry struct {
	name string
	info blob.Info
	dir  bool
}

// folder yields what is in a folder, whose name is empty or ends in a slash, and
// says whether to go on.
func (w *walk) folder(folder string) (more bool, err error) {
	entries, err := w.entries(folder)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		if !e.dir {
			if !w.yield(e.info, nil) {
				return false, nil
			}
			continue
		}
		if more, err := w.folder(e.name); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

func (w *walk) entries(folder string) ([]entry, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	names, err := w.store.fs.List(path.Join(w.store.root, folder))
	if err != nil {
		return nil, ignoreAbsent(err)
	}
	var entries []entry
	for _, base := range names {
		name := folder + base
		if blob.CheckName(name) != nil || !strings.HasPrefix(name, w.prefix) && !strings.HasPrefix(w.prefix, name) {
			continue
		}
		info, err := w.store.fs.Stat(w.store.path(name))
		switch {
		case absent(err):
			// It went in the meantime.
		case err != nil:
			return nil, err
		case info.Dir && (strings.HasPrefix(name+"/", w.prefix) || strings.HasPrefix(w.prefix, name+"/")):
			entries = append(entries, entry{name: name + "/", dir: true})
		case !info.Dir && strings.HasPrefix(name, w.prefix):
			entries = append(entries, entry{name: name, info: blob.Info{Name: name, Size: info.Size, Modified: info.Modified}})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries, nil
}
