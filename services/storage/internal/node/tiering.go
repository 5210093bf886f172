package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

const (
	// doomedAtOnce bounds the objects that one command tells of.
	doomedAtOnce = 256
	// sweptAtOnce bounds the strays that one listing collects.
	sweptAtOnce = 1024
)

// tiering is a partition's traffic with cold storage. One goroutine at a time has
// it, for as long as it works; the owner never does.
type tiering struct {
	mu struct {
		sync.Mutex
		// turn holds what whoever works has put in; made when it is first needed.
		turn chan struct{}
		// cancel ends what is under way, with the partition.
		cancel context.CancelCauseFunc
		ended  error
		// uploading is the object that is uploaded just now, nil when none is.
		uploading *tier.Object
		// swept is when the objects were listed last; dirty says that there may be
		// one that nobody names.
		swept time.Time
		dirty bool
	}
	// pending is what waits to be uploaded, as of the last look; nil is nothing.
	pending atomic.Pointer[pendingUploads]
}

type pendingUploads struct{ segments, bytes, oldestMs int64 }

func (t *tiering) turn() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.turn == nil {
		t.mu.turn = make(chan struct{}, 1)
	}
	return t.mu.turn
}

// begin takes the turn, until end is called. The context that it returns ends with
// the partition.
func (t *tiering) begin(ctx context.Context) (working context.Context, end func(), err error) {
	turn := t.turn()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for another pass: %w", context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.ended != nil {
		<-turn
		return nil, nil, t.mu.ended
	}
	working, cancel := context.WithCancelCause(ctx)
	t.mu.cancel = cancel
	return working, func() {
		cancel(nil)
		t.mu.Lock()
		t.mu.cancel = nil
		t.mu.Unlock()
		<-turn
	}, nil
}

// end ends what is under way, and lets nothing begin any more.
func (t *tiering) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.ended = err
	if t.mu.cancel != nil {
		t.mu.cancel(err)
	}
}

// await returns when what was under way has ended.
func (t *tiering) await() {
	turn := t.turn()
	turn <- struct{}{}
	<-turn
}

// soil notes that there may be an object that nobody names.
func (t *tiering) soil() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.dirty = true
}

// sweepDue tells whether the objects are to be listed. The first listing of a
// process comes at any time within an interval, so that not all come at its start.
func (t *tiering) sweepDue(now time.Time, interval time.Duration, had bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.swept.IsZero() {
		t.mu.swept = now.Add(-rand.N(interval))
	}
	return t.mu.dirty || had && now.Sub(t.mu.swept) >= interval
}

func (t *tiering) setSwept(now time.Time, dirty bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.swept, t.mu.dirty = now, dirty
}

func (t *tiering) setUploading(o *tier.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.uploading = o
}

func (t *tiering) isUploading(o tier.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.uploading != nil && *t.mu.uploading == o
}

// tierUp does what is due between a partition and cold storage. The leader deletes
// the objects that are to go, and uploads the segments that are to come, one after
// the other; every replica drops what it need not have on disk any more. A log with
// nothing due is looked at in memory and not woken up.
func (p *Partition) tierUp(ctx context.Context) error {
	c := p.node.cold
	if c == nil {
		return nil
	}
	view, log, err := p.view(ctx)
	if err != nil || log == nil {
		return err
	}
	var failed error
	if view.Readable() && p.remoteDue(view, log) {
		if failed = errAway; !c.isAway() {
			failed = p.tierRemote(ctx, log)
		}
	}
	// What was uploaded before a failure may go all the same.
	if view, log, err = p.view(ctx); err != nil || log == nil {
		return errors.Join(failed, err)
	}
	p.notePending(view, log)
	return errors.Join(failed, p.dropLocal(view, log))
}

// remoteDue tells whether a leader has anything to do with the store.
func (p *Partition) remoteDue(view *replica.View, log *raftlog.Log) bool {
	state := view.State.Cold
	if len(state.Doomed(nil, 1)) > 0 {
		return true
	}
	if _, _, due := p.uploadDue(view, log); due {
		return true
	}
	return p.sweepDue(view)
}

// uploadDue finds the segment to be uploaded next.
func (p *Partition) uploadDue(view *replica.View, log *raftlog.Log) (s raftlog.SegmentStat, from int64, due bool) {
	if n, _ := log.Size(); n < 2 || !p.Config().Tiered || p.topic.internal {
		return s, 0, false
	}
	segments := log.Stats().Segments
	local := make([]tier.Local, len(segments))
	for i, s := range segments {
		local[i] = tier.Local{Base: s.Base, Next: s.Next, Sealed: s.Sealed}
	}
	// There are no transactions yet: the last stable offset is the high watermark.
	i, from, due := view.State.Cold.Due(local, view.State.StartOffset, view.HighWatermark)
	return segments[i], from, due
}

// sweepDue tells whether the objects of a partition are to be listed: those of one
// that never had any are not.
func (p *Partition) sweepDue(view *replica.View) bool {
	return p.tiering.sweepDue(p.node.options.Now(), p.node.cold.SweepInterval, view.State.Cold != nil)
}

// tierRemote is the leader's part.
func (p *Partition) tierRemote(ctx context.Context, log *raftlog.Log) error {
	ctx, end, err := p.tiering.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	view, err := p.lead()
	if err != nil {
		return err
	}
	sweep := p.sweepDue(view)
	view, failed := p.deleteDoomed(ctx, view)
	if view == nil {
		return failed
	}
	if sweep && failed == nil {
		failed = p.sweep(ctx, view)
	}
	// An intent that is still there means that the store is away, or that an object
	// cannot be deleted: others would be left beside it.
	for len(view.State.Cold.Intents()) == 0 {
		s, from, due := p.uploadDue(view, log)
		if !due {
			return failed
		}
		view, err = p.upload(ctx, view, log, s, from)
		if errors.Is(err, raftlog.ErrReplaced) {
			return failed // it was dropped meanwhile; the next pass looks again
		}
		if err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// lead has the replica lead, if it is alone, and returns its view if it does.
func (p *Partition) lead() (view *replica.View, err error) {
	err = p.await(false, func(r *replica.Replica) error {
		p.node.awake.touch(p)
		if err := p.ownerElect(r); err != nil {
			return err
		}
		view = r.View()
		return nil
	})
	return p.leading(view, err)
}

// leading is the view, if it is that of a leader.
func (p *Partition) leading(view *replica.View, err error) (*replica.View, error) {
	switch {
	case err != nil:
		return nil, err
	case view == nil:
		return nil, ErrStopping
	case !view.Serves:
		return nil, p.leaderHint(view)
	}
	return view, nil
}

// commit has a command committed, and returns a view that shows it. It waits for
// as long as that takes: who does not know whether an object is a segment must not
// go on.
func (p *Partition) commit(command *persistv1.Command) (*replica.View, error) {
	if _, err := p.order(command).Wait(context.Background()); err != nil {
		return nil, err
	}
	r := p.open.Load()
	if r == nil {
		return nil, ErrStopping
	}
	return p.leading(r.View(), nil)
}

// deleteDoomed deletes what is to go and says so. The view is nil when it cannot be
// said.
func (p *Partition) deleteDoomed(ctx context.Context, view *replica.View) (*replica.View, error) {
	for {
		// Nothing is under way: who has the turn uploads, and has come to an end.
		doomed := view.State.Cold.Doomed(nil, doomedAtOnce)
		if len(doomed) == 0 {
			return view, nil
		}
		// The upload of a leader before may still end.
		if len(view.State.Cold.Intents()) > 0 {
			p.tiering.soil()
		}
		removed := &persistv1.ColdRemoved{}
		var failed error
		for _, o := range doomed {
			name := o.Name(p.coldPrefix(view.State.Cold))
			if failed = p.node.cold.done("delete", name, p.node.cold.Store.Delete(ctx, name)); failed != nil {
				break
			}
			p.node.cold.reader.Forget(name)
			removed.Objects = append(removed.Objects, o.Encode())
		}
		if len(removed.GetObjects()) > 0 {
			var err error
			if view, err = p.commit(&persistv1.Command{Kind: &persistv1.Command_ColdRemoved{ColdRemoved: removed}}); err != nil {
				return nil, errors.Join(failed, err)
			}
		}
		if failed != nil {
			return view, failed
		}
	}
}

// upload makes a segment one in cold storage, and returns the view after it.
func (p *Partition) upload(ctx context.Context, view *replica.View, log *raftlog.Log, s raftlog.SegmentStat, from int64) (*replica.View, error) {
	c := p.node.cold
	if err := c.uploads.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("upload: %w", context.Cause(ctx))
	}
	defer c.uploads.Release(1)
	src, err := log.OpenSealed(s.Base, s.Generation)
	if err != nil {
		return nil, p.sourceFailed(err)
	}
	defer func() { _ = src.Close() }() // it was read
	draft := cold.NewDraft(src, s.Size, from)
	if err := src.Scan(func(position int64, batch []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return draft.Add(position, batch)
	}); err != nil {
		return nil, p.sourceFailed(err)
	}
	segment, err := draft.Finish(s.Next)
	if err != nil {
		return nil, err
	}
	segment.Object = tier.Object{Base: from, Term: view.Term, Nonce: rand.Uint64()}
	segment.LastAppendMs = s.LastAppendMs

	p.tiering.setUploading(&segment.Object)
	defer p.tiering.setUploading(nil)
	lineage := view.State.Cold.Lineage()
	if lineage == 0 {
		lineage = 1 + rand.Uint64N(math.MaxUint64)
	}
	intent := tier.Intent{Object: segment.Object, Next: segment.Next}.Command(lineage)
	view, err = p.commit(&persistv1.Command{Kind: &persistv1.Command_ColdIntent{ColdIntent: intent}})
	if err != nil {
		return nil, err
	}
	if !view.State.Cold.Intends(segment.Object) {
		return nil, fmt.Errorf("intent of %s did not count", segment.Object.Name(p.coldPrefix(view.State.Cold)))
	}
	name := segment.Object.Name(p.coldPrefix(view.State.Cold))
	if err := c.done("upload", name, c.Store.Put(ctx, name, draft, draft.Size(), segment.CRC)); err != nil {
		p.tiering.soil()
		return nil, err
	}
	segment.UploadedMs = p.node.options.Now().UnixMilli()
	added := &persistv1.ColdAdded{Segment: segment.Encode()}
	view, err = p.commit(&persistv1.Command{Kind: &persistv1.Command_ColdAdded{ColdAdded: added}})
	if err != nil {
		return nil, err
	}
	p.node.options.Logger.Debug("uploaded a segment to cold storage", "topic", p.topic.name,
		"partition", p.key.Partition, "base", segment.Base, "next", segment.Next, "bytes", segment.Size, "object", name)
	return view, nil
}

// sourceFailed gives an error of reading a segment its kind.
func (p *Partition) sourceFailed(err error) error {
	switch {
	case errors.Is(err, raftlog.ErrClosed):
		return ErrStopping
	case errors.Is(err, raftlog.ErrDamaged):
		return p.readFailed(err)
	}
	return err
}

// sweep deletes the objects of the partition that nobody names.
func (p *Partition) sweep(ctx context.Context, view *replica.View) error {
	prefix := p.coldPrefix(view.State.Cold)
	var found []tier.Object
	for info, err := range p.node.cold.Store.List(ctx, prefix) {
		if err != nil {
			return p.node.cold.done("list", prefix, err)
		}
		if o, ok := tier.ParseName(strings.TrimPrefix(info.Name, prefix)); ok {
			found = append(found, o)
		}
	}
	// Newer than the listing, as Strays asks for.
	view, err := p.lead()
	if err != nil {
		return err
	}
	strays := view.State.Cold.Strays(found, view.Term)
	for _, o := range strays[:min(len(strays), sweptAtOnce)] {
		name := o.Name(prefix)
		if err := p.node.cold.done("delete", name, p.node.cold.Store.Delete(ctx, name)); err != nil {
			return err
		}
		p.node.options.Logger.Info("deleted an object in cold storage that nobody names",
			"topic", p.topic.name, "partition", p.key.Partition, "object", name)
	}
	p.tiering.setSwept(p.node.options.Now(), len(strays) > sweptAtOnce)
	return nil
}

// dropLocal drops from the disk what is in cold storage and over the local
// retention.
func (p *Partition) dropLocal(view *replica.View, log *raftlog.Log) error {
	config := p.Config()
	end := min(view.State.Cold.End(view.State.StartOffset), view.HighWatermark)
	if !config.Tiered || len(view.State.Cold.Segments()) == 0 {
		return nil
	}
	segments, _ := sealedOf(log)
	if len(segments) == 0 {
		return nil
	}
	to := retain.Start(segments, config.Local, log.StartOffset(), end, p.node.options.Now().UnixMilli())
	if segments[0].Next > to {
		return nil
	}
	dropped, bytes, err := p.trimLocal(to)
	p.counts.localSegmentsDropped.Add(int64(dropped))
	p.counts.localBytesDropped.Add(bytes)
	return err
}

// notePending notes what waits to be uploaded.
func (p *Partition) notePending(view *replica.View, log *raftlog.Log) {
	var pending pendingUploads
	if first, _, due := p.uploadDue(view, log); due {
		for _, s := range log.Stats().Segments {
			if s.Sealed && s.Base >= first.Base {
				pending.segments++
				pending.bytes += s.Size
			}
		}
		pending.oldestMs = first.LastAppendMs
	}
	if pending.segments == 0 {
		p.tiering.pending.Store(nil)
		return
	}
	p.tiering.pending.Store(&pending)
}
