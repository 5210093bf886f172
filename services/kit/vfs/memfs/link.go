package memfs

// slot is a name in a folder.
type slot struct {
	dir  *node
	name string
}

// link is one change of folder entries: a making has only to, a removal only
// from, a rename both. An absent slot has no dir.
type link struct {
	from, to slot
	node     *node
}

// acrossFolders tells a rename from one folder into another.
func (l link) acrossFolders() bool {
	return l.from.dir != nil && l.to.dir != nil && l.from.dir != l.to.dir
}

func (l link) touches(dir *node) bool { return l.from.dir == dir || l.to.dir == dir }

// linkLocked makes the change visible, and pending.
func (f *FS) linkLocked(l link) {
	if l.from.dir != nil {
		delete(l.from.dir.entries, l.from.name)
	}
	if l.to.dir != nil {
		l.to.dir.entries[l.to.name] = l.node
	}
	f.links = append(f.links, l)
}

// persist makes the change durable.
func (l link) persist() {
	if l.from.dir != nil {
		delete(l.from.dir.durable, l.from.name)
	}
	if l.to.dir != nil {
		l.to.dir.durable[l.to.name] = l.node
	}
}

func (f *FS) syncDirLocked(dir *node) {
	chosen := make([]bool, len(f.links))
	for i, l := range f.links {
		chosen[i] = l.touches(dir)
	}
	f.persistLinksLocked(chosen)
}

// persistLinksLocked makes the chosen changes durable, and those without which
// they cannot be. The others stay pending.
func (f *FS) persistLinksLocked(chosen []bool) {
	f.closeLinksLocked(chosen)
	kept := f.links[:0]
	for i, l := range f.links {
		if chosen[i] {
			l.persist()
		} else {
			kept = append(kept, l)
		}
	}
	clear(f.links[len(kept):]) // let go of the nodes
	f.links = kept
}

// closeLinksLocked adds to the chosen changes every older one that must not be
// missing beside them:
//
//   - an older change of the same name, so that a name goes through its
//     versions in order and a file is never under two names;
//   - all changes inside a folder before its removal, so that what was moved
//     out of it in time is not lost with it;
//   - everything before a rename from folder to folder, so that the file is
//     not moved to where no durable path leads.
func (f *FS) closeLinksLocked(chosen []bool) {
	names := map[slot]bool{}
	removed := map[*node]bool{}
	all := false
	for i := len(f.links) - 1; i >= 0; i-- {
		l := f.links[i]
		if !chosen[i] && !all && !names[l.from] && !names[l.to] && !removed[l.from.dir] && !removed[l.to.dir] {
			continue
		}
		chosen[i] = true
		all = all || l.acrossFolders()
		if l.from.dir != nil {
			names[l.from] = true
		}
		if l.to.dir != nil {
			names[l.to] = true
		} else if l.node.dir {
			removed[l.node] = true
		}
	}
}
