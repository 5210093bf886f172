package tier

import "slices"

// Local is a segment on disk. Its offsets are [Base, Next).
type Local struct {
	Base, Next int64
	Sealed     bool
}

// Due tells which segment of a log is to be uploaded next, and from which offset
// of it on: replicas seal their segments at different offsets, so that of a new
// leader may begin in cold storage already. Only what is sealed and lies below
// bound, where the log is committed and no transaction open, goes.
func (s *State) Due(segments []Local, start, bound int64) (i int, from int64, due bool) {
	end := s.End(start)
	for i, local := range segments {
		switch {
		case !local.Sealed || local.Next > bound:
			return 0, 0, false
		case local.Next <= end:
			continue
		case local.Base > end:
			// There is nothing that could be uploaded next.
			return 0, 0, false
		case len(s.Segments()) == 0:
			return i, local.Base, true
		default:
			return i, end, true
		}
	}
	return 0, 0, false
}

// Doomed are the objects that a leader is to delete, no more than most: garbage,
// and intents whose upload nobody will add. active is the upload that the leader
// has under way in this term, nil if there is none.
func (s *State) Doomed(active *Object, most int) []Object {
	doomed := slices.Clone(s.Garbage())
	for _, i := range s.Intents() {
		if active != nil && i.Object == *active {
			continue
		}
		doomed = append(doomed, i.Object)
	}
	return doomed[:min(len(doomed), most)]
}

// Strays are those of the objects that were found in the store which belong to
// nobody, by the state of a leader that serves, or served, in a term. The state must
// be newer than the finding.
func (s *State) Strays(found []Object, term uint64) []Object {
	named := map[Object]bool{}
	for _, o := range s.Garbage() {
		named[o] = true
	}
	for _, i := range s.Intents() {
		named[i.Object] = true
	}
	for _, segment := range s.Segments() {
		named[segment.Object] = true
	}
	var strays []Object
	for _, o := range found {
		if o.Term <= term && !named[o] {
			strays = append(strays, o)
		}
	}
	return strays
}
