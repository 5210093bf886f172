package shard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// clockwork is registers of which "due" counts up every second while "run" is
// not 0; what was heard of in time keeps it from doing so.
type clockwork struct {
	registers
	next time.Time
	// burst is how often it is due at once.
	burst int
}

func (c *clockwork) Due(now time.Time) []Record {
	if c.burst--; c.burst <= 0 {
		c.next = now.Add(time.Second)
	}
	return []Record{set("due", c.registers["due"]+1)}
}

func (c *clockwork) NextDue() time.Time {
	if c.registers["run"] == 0 {
		return time.Time{}
	}
	return c.next
}

func newClockwork(t *testing.T, log Log) *Runtime[*clockwork] {
	t.Helper()
	r := newMachine(t, testConfig, log, 1, func(int32) *clockwork {
		return &clockwork{registers: registers{}, next: time.Now().Add(time.Second)}
	})
	return r
}

func (l *scriptedLog) value(name string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := registers{}
	for _, r := range l.records {
		m.Apply(r)
	}
	return m[name]
}

func writeClock(t *testing.T, r *Runtime[*clockwork], records ...Record) {
	t.Helper()
	require.NoError(t, r.Write(t.Context(), 0, func(*clockwork) ([]Record, error) { return records, nil }))
}

func TestWhatIsDueIsWrittenWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &scriptedLog{}
		r := newClockwork(t, log)
		first, _ := r.give(t, 0, 1)
		writeClock(t, r, set("a", 1))
		<-time.After(10 * time.Second)
		require.Zero(t, log.value("due"), "nothing runs")

		writeClock(t, r, set("run", 1))
		<-time.After(5500 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 6, log.value("due"), "one was due already")

		// Not when the shard is another's, nor before it is loaded again.
		r.shard(0).disown(first)
		<-time.After(10 * time.Second)
		require.EqualValues(t, 6, log.value("due"))
		r.give(t, 0, 2)
		<-time.After(10 * time.Second)
		require.EqualValues(t, 6, log.value("due"))
		require.NoError(t, r.Read(t.Context(), 0, func(*clockwork) error { return nil }))
		<-time.After(2500 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 8, log.value("due"))
	})
}

func TestWhatIsDueSeveralTimesIsDoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &scriptedLog{}
		r := newClockwork(t, log)
		r.give(t, 0, 1)
		require.NoError(t, r.Write(t.Context(), 0, func(c *clockwork) ([]Record, error) {
			c.burst = 5
			return []Record{set("run", 1)}, nil
		}))
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 5, log.value("due"))
	})
}

func TestWhatIsDueIsTriedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &scriptedLog{}
		r := newClockwork(t, log)
		r.give(t, 0, 1)
		writeClock(t, r, set("run", 1))
		log.mu.Lock()
		log.errs = []error{errRefused, errRefused}
		log.mu.Unlock()
		<-time.After(3500 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, log.value("due"))

		// An outcome that nobody knows costs the tenure, as for any write.
		log.mu.Lock()
		log.errs = []error{errors.New("lost")}
		log.mu.Unlock()
		<-time.After(time.Second)
		synctest.Wait()
		require.Empty(t, r.Owned())
	})
}

// What waits in the queue is heard before what is due is done.
func TestRequestsGoBeforeWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
		r := newClockwork(t, log)
		r.give(t, 0, 1)
		go func() {
			_ = r.Write(t.Context(), 0, func(*clockwork) ([]Record, error) { return []Record{set("run", 1)}, nil })
		}()
		<-log.reached
		log.gate <- struct{}{}
		// The shard is held up for longer than until something is due.
		go func() {
			_ = r.Write(t.Context(), 0, func(*clockwork) ([]Record, error) { return []Record{set("a", 1)}, nil })
		}()
		<-log.reached
		<-time.After(3 * time.Second)
		heard := make(chan int64, 1)
		go func() {
			_ = r.Read(t.Context(), 0, func(c *clockwork) error {
				c.next = time.Now().Add(time.Minute)
				heard <- c.registers["due"]
				return nil
			})
		}()
		synctest.Wait()
		log.gate <- struct{}{}
		require.Zero(t, <-heard)
		<-time.After(30 * time.Second)
		synctest.Wait()
		require.Zero(t, log.value("due"))
	})
}
