package schema

import "slices"

// Level is what a new version of a subject must be compatible with. Its values
// are stored and those of the field's registries: they must not change.
type Level string

// The levels. The transitive ones look at all versions, the others at the newest.
const (
	LevelNone               Level = "NONE"
	LevelBackward           Level = "BACKWARD"
	LevelBackwardTransitive Level = "BACKWARD_TRANSITIVE"
	LevelForward            Level = "FORWARD"
	LevelForwardTransitive  Level = "FORWARD_TRANSITIVE"
	LevelFull               Level = "FULL"
	LevelFullTransitive     Level = "FULL_TRANSITIVE"
)

// Levels are all levels.
var Levels = []Level{
	LevelNone, LevelBackward, LevelBackwardTransitive, LevelForward, LevelForwardTransitive, LevelFull, LevelFullTransitive,
}

// Valid says whether it is one of Levels.
func (l Level) Valid() bool { return slices.Contains(Levels, l) }

// Transitive says whether all versions count and not only the newest.
func (l Level) Transitive() bool {
	return l == LevelBackwardTransitive || l == LevelForwardTransitive || l == LevelFullTransitive
}

func (l Level) backward() bool {
	return l == LevelBackward || l == LevelBackwardTransitive || l == LevelFull || l == LevelFullTransitive
}

func (l Level) forward() bool {
	return l == LevelForward || l == LevelForwardTransitive || l == LevelFull || l == LevelFullTransitive
}

// Verdict is what stands against a new version; the zero Verdict is that nothing
// does.
type Verdict struct {
	// Backward is why the new schema does not accept an old one.
	Backward []string
	// Forward is why an old schema does not accept the new one.
	Forward []string
}

// Compatible says whether nothing stands against it.
func (v Verdict) Compatible() bool { return len(v.Backward) == 0 && len(v.Forward) == 0 }

// Messages are all faults, each after its direction.
func (v Verdict) Messages() []string {
	var all []string
	for _, fault := range v.Backward {
		all = append(all, "backward-incompatible: "+fault)
	}
	for _, fault := range v.Forward {
		all = append(all, "forward-incompatible: "+fault)
	}
	return all
}

// Check judges a new version against the version before, or against all when the
// level is transitive. It ends with the first that it does not fit.
func (l Level) Check(next *Schema, before []*Schema) Verdict {
	for _, old := range slices.Backward(before) {
		var v Verdict
		if l.backward() {
			v.Backward = next.Accepts(old, "new")
		}
		if l.forward() {
			v.Forward = old.Accepts(next, "old")
		}
		if !v.Compatible() || !l.Transitive() {
			return v
		}
	}
	return Verdict{}
}
