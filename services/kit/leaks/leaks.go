// Package leaks finds goroutines that a package's tests have left behind.
package leaks

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after what it was started for:
// goleak's own patience, less than half a second, is too little for a machine that does
// other things.
const patience = time.Minute

// Main is a package's TestMain: it runs the tests and ends the process, with a failure
// if goroutines of theirs do not end.
func Main(m *testing.M) { goleak.VerifyTestMain(patient{m}) }

// patient runs tests and waits for their goroutines.
type patient struct{ *testing.M }

// Run returns the exit code. goleak looks after it what is left.
func (p patient) Run() int {
	code := p.M.Run()
	if code == 0 {
		_ = settle(patience)
	}
	return code
}

// settle waits until no goroutine is left but the caller's.
func settle(patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
