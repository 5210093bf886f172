package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// shard is one shard's queue and state.
type shard[M Machine] struct {
	runtime *Runtime[M]
	number  int32

	mu struct {
		sync.Mutex
		// tenure is nil while this coordinator does not own the shard.
		tenure *tenure
		queue  []*op[M]
		// working says that a goroutine runs work, and owns state.
		working bool
		// loaded is the tenure that state is of; nil when there is no state.
		loaded *tenure
		// timer calls ring when something comes due; nil when nothing will.
		timer *time.Timer
		// rang is that work shall ask for what is due.
		rang bool
	}

	// state belongs to work while it runs, and to the lock otherwise. It is only
	// looked at while it is loaded.
	state M
	// serving are the ops that work is at. They are work's.
	serving []*op[M]
	// notDueBefore spaces out attempts to do what is due. It is work's.
	notDueBefore time.Time
}

// enqueue adds an op, and a goroutine when there is none.
func (s *shard[M]) enqueue(o *op[M]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.tenure == nil:
		return ErrNotCoordinator
	case len(s.mu.queue) >= s.runtime.cfg.MaxQueued:
		return ErrOverloaded
	}
	s.mu.queue = append(s.mu.queue, o)
	s.startLocked()
	return nil
}

func (s *shard[M]) startLocked() {
	if !s.mu.working {
		s.mu.working = true
		confine.Go(&s.runtime.work, s.runtime.logger, s.broke, s.work)
	}
}

// ring has what is due done, of a state that is in memory.
func (s *shard[M]) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.tenure == nil || s.mu.loaded != s.mu.tenure {
		return
	}
	s.mu.rang = true
	s.startLocked()
}

// isLoaded reports whether the shard's state is in memory.
func (s *shard[M]) isLoaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.loaded != nil && s.mu.loaded == s.mu.tenure
}

// own begins a tenure.
func (s *shard[M]) own(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.tenure = t
}

// current returns the present tenure, or nil.
func (s *shard[M]) current() *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.tenure
}

// disown ends a tenure, if it is the present one. Who waits is told to go
// elsewhere; an append that is under way is still answered as it ends.
func (s *shard[M]) disown(t *tenure) {
	t.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.tenure != t {
		return
	}
	s.mu.tenure = nil
	if !s.mu.working {
		s.unloadLocked()
	}
}

func (s *shard[M]) unloadLocked() {
	var none M
	s.state, s.mu.loaded = none, nil
	s.stopTimerLocked()
}

func (s *shard[M]) stopTimerLocked() {
	if s.mu.timer != nil {
		s.mu.timer.Stop()
		s.mu.timer = nil
	}
}

// work serves the queue until it is empty, and does what has come due.
func (s *shard[M]) work() {
	for {
		ops, rang := s.take()
		if len(ops) == 0 && !rang {
			return
		}
		s.serving = ops
		s.serve(ops)
		s.serving = nil
		if rang {
			// After what was waiting: who was heard of in it is not late.
			s.doDue()
		}
	}
}

// take returns what there is to do. When that is nothing, work is over.
func (s *shard[M]) take() (ops []*op[M], rang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.loaded != s.mu.tenure {
		s.unloadLocked()
	}
	ops, rang = s.mu.queue, s.mu.rang
	s.mu.queue, s.mu.rang = nil, false
	if len(ops) == 0 && !rang {
		s.setTimerLocked()
		s.mu.working = false
	}
	return ops, rang
}

// brokePause is how long a shard stays where its state machine panicked. It may do so
// wherever the shard goes next: the log is the same.
const brokePause = time.Second

// broke gives the shard up after work panicked. The state may be half changed, and is
// not used again: whoever owns the shard next reads the log.
func (s *shard[M]) broke(error) {
	if t := s.current(); t != nil {
		pause := time.NewTimer(brokePause)
		select {
		case <-pause.C:
		case <-t.ctx.Done():
		}
		pause.Stop()
		s.unload(t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left := append(s.serving, s.mu.queue...)
	s.serving, s.mu.queue, s.mu.rang, s.mu.working = nil, nil, false, false
	s.unloadLocked()
	for _, o := range left {
		o.lose()
	}
}

// setTimerLocked sets the timer to when the state has something to do.
func (s *shard[M]) setTimerLocked() {
	s.stopTimerLocked()
	timed, ok := any(s.state).(Timed)
	if !ok || s.mu.loaded == nil {
		return
	}
	if next := timed.NextDue(); !next.IsZero() {
		s.mu.timer = time.AfterFunc(time.Until(later(next, s.notDueBefore)), s.ring)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// duePause is how long what is due waits after it could not be written.
const duePause = time.Second

// doDue writes what has come due, for as long as the state is in memory.
func (s *shard[M]) doDue() {
	for s.isLoaded() {
		timed, ok := any(s.state).(Timed)
		if !ok {
			return
		}
		if next := timed.NextDue(); next.IsZero() || time.Until(next) > 0 {
			return
		}
		o := newOp[M]()
		o.write = func(m M) ([]Record, error) { return any(m).(Timed).Due(time.Now()), nil }
		s.writeSome([]*op[M]{o})
		if err := <-o.done; err != nil {
			s.runtime.logger.Warn("what was due is not written, trying again", "shard", s.number, "err", err)
			s.notDueBefore = time.Now().Add(duePause)
			return
		}
	}
}

// serve answers ops: first all writes, then all reads. None of them was
// answered before another of them came, so every order is a right one, and this
// one needs the fewest appends.
func (s *shard[M]) serve(ops []*op[M]) {
	var writes, reads []*op[M]
	for _, o := range ops {
		if o.write != nil {
			writes = append(writes, o)
		} else {
			reads = append(reads, o)
		}
	}
	for len(writes) > 0 {
		writes = s.writeSome(writes)
	}
	s.readAll(reads)
}

// written is a write that has been evaluated.
type written[M Machine] struct {
	*op[M]
	// err is what the write itself says; it counts only when what it was based
	// on is committed.
	err error
}

// writeSome evaluates writes into one batch, appends it and answers them. It
// returns those for which the batch had no room.
func (s *shard[M]) writeSome(ops []*op[M]) (rest []*op[M]) {
	t, err := s.ready()
	if err != nil {
		refuse(ops, err)
		return nil
	}
	var (
		batch   []Record
		undos   []func()
		waiting []written[M]
		size    int
	)
	for len(ops) > 0 && size < s.runtime.cfg.MaxBatchBytes {
		o := ops[0]
		ops = ops[1:]
		if !o.start() {
			continue
		}
		records, err := s.evaluate(o)
		close(o.evaluated)
		n := sizeOf(records)
		if err == nil && n > s.runtime.cfg.MaxBatchBytes {
			err = ErrTooLarge
		}
		if err == nil {
			for _, r := range records {
				undos = append(undos, s.state.Apply(r))
			}
			batch = append(batch, records...)
			size += n
		}
		waiting = append(waiting, written[M]{o, err})
	}
	if len(batch) > 0 {
		err = s.append(t, batch)
	}
	switch {
	case err == nil:
		for _, w := range waiting {
			w.answer(w.err)
		}
	case errors.Is(err, errNotNow), errors.Is(err, errRefused):
		for i := len(undos) - 1; i >= 0; i-- {
			undos[i]()
		}
		for _, w := range waiting {
			w.answer(ErrUnavailable.Because(err))
		}
	default:
		// The state may be ahead of the log, or behind it.
		s.unload(t)
		answer := ErrUnknownOutcome.Because(err)
		if errors.Is(err, errFenced) {
			answer = ErrNotCoordinator.Because(err)
		}
		for _, w := range waiting {
			w.answer(answer)
		}
	}
	return ops
}

// evaluate returns the records of a write. Neither it nor a read changes the state,
// so that a panic in one is the failure of it alone.
func (s *shard[M]) evaluate(o *op[M]) (records []Record, err error) {
	err = confine.Attempt(context.Background(), s.runtime.logger, func() error {
		var err error
		records, err = o.write(s.state)
		return err
	})
	return records, err
}

// append writes a batch, again and again as long as it surely is not written
// and there is time.
func (s *shard[M]) append(t *tenure, batch []Record) error {
	// Not the tenure's context: an append under way ends as the log says,
	// whoever owns the shard by then.
	ctx, cancel := context.WithTimeout(s.runtime.appends, s.runtime.cfg.AppendTimeout)
	defer cancel()
	wait := backoff.New(backoff.Policy{Initial: 5 * time.Millisecond, Max: 500 * time.Millisecond})
	started := time.Now()
	for {
		err := s.runtime.log.Append(ctx, s.number, t.epoch, batch)
		s.runtime.metrics.appended(len(batch), time.Since(started), err)
		if !errors.Is(err, errNotNow) || wait.Wait(ctx) != nil {
			return err
		}
		if !t.alive() {
			return err
		}
	}
}

// unload forgets the state and gives the shard up, to be taken again by whoever
// finds it free.
func (s *shard[M]) unload(t *tenure) {
	s.mu.Lock()
	s.unloadLocked()
	s.mu.Unlock()
	s.disown(t)
	s.runtime.gaveUp(t)
}

// readAll answers reads from the state, which is committed.
func (s *shard[M]) readAll(ops []*op[M]) {
	if len(ops) == 0 {
		return
	}
	t, err := s.ready()
	if err != nil {
		refuse(ops, err)
		return
	}
	for _, o := range ops {
		if !o.start() {
			continue
		}
		err := confine.Attempt(context.Background(), s.runtime.logger, func() error { return o.read(s.state) })
		close(o.evaluated)
		// Looked at after the read: what was current then is a true answer.
		if !t.alive() || s.current() != t {
			err = ErrNotCoordinator
		}
		o.answer(err)
	}
}

// ready sees to it that the state is that of the present tenure.
func (s *shard[M]) ready() (*tenure, error) {
	s.mu.Lock()
	t, loaded := s.mu.tenure, s.mu.loaded
	s.mu.Unlock()
	switch {
	case t == nil || !t.alive():
		return nil, ErrNotCoordinator
	case t == loaded:
		return t, nil
	}
	state, err := s.load(t)
	switch {
	case err == nil:
		s.mu.Lock()
		s.state, s.mu.loaded = state, t
		s.mu.Unlock()
		s.runtime.noteLoad()
		return t, nil
	case errors.Is(err, errFenced):
		s.unload(t)
		return nil, ErrNotCoordinator.Because(err)
	case !t.alive():
		return nil, ErrNotCoordinator.Because(err)
	case errors.Is(err, ErrBadLog):
		return nil, err
	}
	return nil, ErrUnavailable.Because(err)
}

// load fences the log and reads it to its end. What fails for a moment is tried
// again, as long as there is some progress.
func (s *shard[M]) load(t *tenure) (M, error) {
	began := time.Now()
	state, records, err := s.replay(t)
	s.runtime.metrics.loaded(records, time.Since(began), err)
	if err == nil {
		s.runtime.logger.Debug("shard loaded", "shard", s.number, "epoch", t.epoch, "records", records, "took", time.Since(began))
	} else {
		s.runtime.logger.Warn("shard not loaded", "shard", s.number, "epoch", t.epoch, "err", err)
	}
	return state, err
}

func (s *shard[M]) replay(t *tenure) (state M, records int, err error) {
	state = s.runtime.fresh(s.number)
	patience := newPatience(t.ctx, s.runtime.cfg.LoadTimeout)
	defer patience.stop()

	var end int64
	for {
		end, err = s.runtime.log.Fence(patience.ctx, s.number, t.epoch)
		if err == nil {
			break
		}
		if errors.Is(err, errFenced) || errors.Is(err, errRefused) || !patience.wait() {
			return state, 0, err
		}
	}
	patience.progress()
	for offset := int64(0); offset < end; {
		batch, next, err := s.runtime.log.Read(patience.ctx, s.number, offset)
		switch {
		case err == nil && next > offset:
			for _, r := range batch {
				state.Apply(r)
			}
			records += len(batch)
			offset = next
			patience.progress()
		case errors.Is(err, errRefused) || errors.Is(err, ErrBadLog):
			return state, records, err
		case !patience.wait():
			return state, records, errors.Join(err, patience.ctx.Err())
		}
	}
	return state, records, nil
}

// refuse answers ops that were not begun.
func refuse[M Machine](ops []*op[M], err error) {
	for _, o := range ops {
		if o.start() {
			close(o.evaluated)
			o.answer(err)
		}
	}
}

// recordOverhead is about what a record takes beside its key and value.
const recordOverhead = 16

func sizeOf(records []Record) int {
	n := 0
	for _, r := range records {
		n += proto.Size(r.Key) + recordOverhead
		if r.Value != nil {
			n += proto.Size(r.Value)
		}
	}
	return n
}
