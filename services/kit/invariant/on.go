//go:build invariants || race

package invariant

// Enabled says whether assertions run.
const Enabled = true
