package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortRounds is how many rounds a test has where CHAOS_TIME is not set.
const shortRounds = 4

// pace says how long a test goes on.
type pace struct {
	until time.Time // zero: by rounds
	round int
}

// newPace reads CHAOS_TIME.
func newPace(t *testing.T) *pace {
	text := os.Getenv("CHAOS_TIME")
	if text == "" {
		return &pace{}
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "CHAOS_TIME")
	return &pace{until: time.Now().Add(d)}
}

// next says whether there is another round.
func (p *pace) next() bool {
	p.round++
	if p.until.IsZero() {
		return p.round <= shortRounds
	}
	return time.Now().Before(p.until)
}

// newRandom returns random choices that CHAOS_SEED repeats.
func newRandom(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CHAOS_SEED")
	}
	t.Logf("CHAOS_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// between returns a random duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
