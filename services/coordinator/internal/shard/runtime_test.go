package shard

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNobodyIsAnsweredWithoutOwning(t *testing.T) {
	r := newRuntime(t, testConfig, &scriptedLog{}, 1)
	require.ErrorIs(t, write(t, r, set("a", 1)), ErrNotCoordinator)
	_, err := read(t, r, "a")
	require.ErrorIs(t, err, ErrNotCoordinator)
	require.ErrorIs(t, r.Read(t.Context(), 7, nil), ErrNotCoordinator)
}

func TestWritesThatWaitShareOneAppend(t *testing.T) {
	log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)

	answers := make(chan error, 20)
	start := func(name string, n int64) {
		go func() { answers <- write(t, r, set(name, n)) }()
	}
	start("a", 1)
	<-log.reached // the first is under way
	for i := range 10 {
		start("b", int64(i))
		eventually(t, func() bool { return r.shard(0).queued() == i+1 })
	}
	// A read that comes after them waits for them.
	reads := make(chan int64, 1)
	go func() {
		n, err := read(t, r, "b")
		answers <- err
		reads <- n
	}()
	eventually(t, func() bool { return r.shard(0).queued() == 11 })
	require.Empty(t, answers, "nothing is answered before it is committed")
	log.gate <- struct{}{}
	<-log.reached
	log.gate <- struct{}{}
	for range 12 {
		require.NoError(t, <-answers)
	}
	require.Equal(t, []int{1, 10}, log.batches())
	require.EqualValues(t, 9, <-reads)
	eventually(t, func() bool {
		s := r.shard(0)
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.mu.working
	})
}

func TestAWriteSeesWhatIsNotCommittedAndFallsWithIt(t *testing.T) {
	log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	answers := make(chan error, 3)
	go func() { answers <- write(t, r, set("x", 0)) }()
	<-log.reached

	errTaken := errors.New("taken")
	take := func() error {
		return r.Write(t.Context(), 0, func(m registers) ([]Record, error) {
			if m["lock"] != 0 {
				return nil, errTaken
			}
			return []Record{set("lock", 1)}, nil
		})
	}
	for i := range 2 {
		go func() { answers <- take() }()
		eventually(t, func() bool { return r.shard(0).queued() == i+1 })
	}
	log.mu.Lock()
	log.errs = []error{nil, errRefused}
	log.mu.Unlock()
	log.gate <- struct{}{}
	require.NoError(t, <-answers)
	<-log.reached
	log.gate <- struct{}{}
	// The second was refused because of the first, which came to nothing: so it
	// must not be told that the lock is taken.
	require.ErrorIs(t, <-answers, ErrUnavailable)
	require.ErrorIs(t, <-answers, ErrUnavailable)
	requireRegister(t, r, "lock", 0)

	go func() { answers <- take() }()
	<-log.reached
	log.gate <- struct{}{}
	require.NoError(t, <-answers)
	require.ErrorIs(t, take(), errTaken)
}

func TestAFailedAppendIsUndoneInReverse(t *testing.T) {
	log := &scriptedLog{}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	require.NoError(t, write(t, r, set("a", 1)))
	log.mu.Lock()
	log.errs = []error{errRefused}
	log.mu.Unlock()
	require.ErrorIs(t, write(t, r, set("a", 2), set("a", 3), set("b", 4)), ErrUnavailable)
	requireRegister(t, r, "a", 1)
	requireRegister(t, r, "b", 0)
}

func TestAnAppendIsRepeatedWhileItSurelyIsNotWritten(t *testing.T) {
	log := &scriptedLog{errs: []error{errNotNow, errNotNow}}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	require.NoError(t, write(t, r, set("a", 1)))
	require.Equal(t, []int{1}, log.batches())
}

func TestAnUnknownOutcomeCostsTheEpoch(t *testing.T) {
	log := &scriptedLog{errs: []error{errors.New("the connection broke")}}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	require.ErrorIs(t, write(t, r, set("a", 1)), ErrUnknownOutcome)
	<-r.lost
	require.ErrorIs(t, write(t, r, set("a", 2)), ErrNotCoordinator)
	// It had been written after all.
	log.mu.Lock()
	log.records = append(log.records, set("a", 1))
	log.mu.Unlock()
	r.give(t, 0, 2)
	requireRegister(t, r, "a", 1)
	require.EqualValues(t, 2, log.fence)
}

func TestAFencedOwnerSendsAway(t *testing.T) {
	log := &scriptedLog{}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	require.NoError(t, write(t, r, set("a", 1)))
	log.mu.Lock()
	log.fence = 5
	log.mu.Unlock()
	require.ErrorIs(t, write(t, r, set("a", 2)), ErrNotCoordinator)
	<-r.lost
	require.Empty(t, r.Owned())
	// Nor does it load any more.
	r.give(t, 0, 3)
	_, err := read(t, r, "a")
	require.ErrorIs(t, err, ErrNotCoordinator)
	r.give(t, 0, 6)
	requireRegister(t, r, "a", 1)
}

func TestALostLeaseEndsReads(t *testing.T) {
	log := &scriptedLog{}
	r := newRuntime(t, testConfig, log, 1)
	_, g := r.give(t, 0, 1)
	require.NoError(t, write(t, r, set("a", 1)))
	requireRegister(t, r, "a", 1)
	g.dead.Store(true)
	_, err := read(t, r, "a")
	require.ErrorIs(t, err, ErrNotCoordinator)
	// Also when it is lost while the read runs.
	_, g = r.give(t, 0, 2)
	requireRegister(t, r, "a", 1)
	err = r.Read(t.Context(), 0, func(registers) error {
		g.dead.Store(true)
		return nil
	})
	require.ErrorIs(t, err, ErrNotCoordinator)
}

func TestLoadingGoesOnOverFailures(t *testing.T) {
	log := &scriptedLog{
		records:   []Record{set("a", 1), set("b", 1), set("a", 2)},
		fenceErrs: []error{errNotNow, errors.New("lost sight")},
		readErrs:  []error{errNotNow, nil, errNotNow},
	}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	require.Empty(t, r.Loaded(), "nothing is loaded before somebody asks")
	requireRegister(t, r, "a", 2)
	requireRegister(t, r, "b", 1)
	require.Equal(t, []int32{0}, r.Loaded())
	require.EqualValues(t, 1, r.Loads())
}

func TestAnUnreadableLogIsNotServed(t *testing.T) {
	log := &scriptedLog{records: []Record{set("a", 1)}, readErrs: []error{ErrBadLog}}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	_, err := read(t, r, "a")
	require.ErrorIs(t, err, ErrBadLog)
	require.Empty(t, r.Loaded())
}

func TestACallerThatGoesLeavesNothingRunning(t *testing.T) {
	log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	first := make(chan error, 1)
	go func() { first <- write(t, r, set("a", 1)) }()
	<-log.reached

	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	ran := false
	go func() {
		gone <- r.Write(ctx, 0, func(registers) ([]Record, error) {
			ran = true
			return []Record{set("a", 2)}, nil
		})
	}()
	eventually(t, func() bool { return r.shard(0).queued() == 1 })
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	log.gate <- struct{}{}
	require.NoError(t, <-first)
	requireRegister(t, r, "a", 1)
	require.False(t, ran)
}

func TestWhatIsTooMuchIsRefused(t *testing.T) {
	cfg := testConfig
	cfg.MaxQueued, cfg.MaxBatchBytes = 2, 100
	log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
	r := newRuntime(t, cfg, log, 1)
	r.give(t, 0, 1)
	answers := make(chan error, 3)
	go func() { answers <- write(t, r, set("a", 1)) }()
	<-log.reached
	for i := range 2 {
		go func() { answers <- write(t, r, set("a", 1)) }()
		eventually(t, func() bool { return r.shard(0).queued() == i+1 })
	}
	require.ErrorIs(t, write(t, r, set("a", 1)), ErrOverloaded)
	for range 2 {
		log.gate <- struct{}{}
	}
	for range 3 {
		require.NoError(t, <-answers)
	}
	large := make([]Record, 20)
	for i := range large {
		large[i] = set("b", int64(i))
	}
	require.ErrorIs(t, write(t, r, large...), ErrTooLarge)
	requireRegister(t, r, "b", 0)
}

func TestEndingATenureAnswersWhoWaits(t *testing.T) {
	log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
	r := newRuntime(t, testConfig, log, 1)
	tenure, _ := r.give(t, 0, 1)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- write(t, r, set("a", 1)) }()
	<-log.reached
	go func() { second <- write(t, r, set("a", 2)) }()
	eventually(t, func() bool { return r.shard(0).queued() == 1 })
	r.shard(0).disown(tenure)
	log.gate <- struct{}{}
	require.NoError(t, <-first, "an append under way is answered as it ends")
	require.ErrorIs(t, <-second, ErrNotCoordinator)
}

func TestNamesHashAsTheyAlwaysDid(t *testing.T) {
	r := newRuntime(t, testConfig, &scriptedLog{}, 16)
	for name, want := range map[string]int32{"": 5, "analytics": 11, "g": 6, "группа": 5} {
		got, ok := r.Of(name)
		require.True(t, ok)
		require.Equal(t, want, got, name)
	}
}

// A request whose rule panics fails alone; the state is what it was.
func TestAPanicInARuleIsTheFailureOfOneRequest(t *testing.T) {
	r := newRuntime(t, testConfig, &scriptedLog{}, 1)
	r.give(t, 0, 1)
	require.NoError(t, write(t, r, set("a", 1)))
	require.ErrorContains(t, r.Write(t.Context(), 0, func(registers) ([]Record, error) { panic("broken") }), "internal error (id ")
	require.ErrorContains(t, r.Read(t.Context(), 0, func(registers) error { panic("broken") }), "internal error (id ")
	requireRegister(t, r, "a", 1)
	require.NoError(t, write(t, r, set("a", 2)))
}

// A state machine that panics is given up with its shard, and all who wait are told;
// whoever owns the shard next reads the log.
func TestAPanicInTheStateMachineGivesTheShardUp(t *testing.T) {
	log := &scriptedLog{gate: make(chan struct{}), reached: make(chan struct{}, 10)}
	r := newRuntime(t, testConfig, log, 1)
	r.give(t, 0, 1)
	answers := make(chan error, 3)
	go func() { answers <- write(t, r, set("a", 1)) }()
	<-log.reached // the first is under way
	// Apply knows nothing of such a record.
	go func() { answers <- write(t, r, Record{}) }()
	eventually(t, func() bool { return r.shard(0).queued() == 1 })
	go func() { answers <- write(t, r, set("b", 1)) }()
	eventually(t, func() bool { return r.shard(0).queued() == 2 })
	log.gate <- struct{}{}
	require.NoError(t, <-answers)
	for range 2 {
		err := <-answers
		require.True(t, errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrUnavailable), "%v", err)
	}
	require.Equal(t, []int{1}, log.batches())
	eventually(t, func() bool { return r.shard(0).current() == nil })

	r.give(t, 0, 2)
	requireRegister(t, r, "a", 1)
	requireRegister(t, r, "b", 0)
}
