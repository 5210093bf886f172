package binproto

import (
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
)

// An answer is a whole frame to send, and what it gives back once it is sent.
type answer struct {
	frame []byte
	hold  budget.Hold
}

// An outbox sends the answers of one connection. Whoever brings one while nobody
// writes writes it, and all that others bring meanwhile; so no goroutine waits
// for answers, and those that come together leave together.
type outbox struct {
	conn net.Conn
	// How long a client may take to read timedBytes.
	timeout time.Duration
	// Lasts while the client is waited for.
	stall *budget.Stall
	// Counts what was sent.
	bytes prometheus.Counter
	// Called once for each answer that was sent, or that nobody will get.
	sent func(*answer)
	// Called once, when the connection turns out to be broken.
	broken func(error)

	mu struct {
		sync.Mutex
		queue []answer
		// Somebody writes, and takes what is queued next.
		writing bool
		failed  bool
	}
}

const (
	// writeChunk is how much is given to the socket at a time: what a client has to
	// take, or it stalls.
	writeChunk = 128 << 10
	// timedBytes is what it has timeout for.
	timedBytes = 1 << 20
	// gatherSize is how many bytes of small answers leave in one write.
	gatherSize = 64 << 10
)

// send takes answers over. It returns when they are sent, or when somebody else
// is at it.
func (o *outbox) send(answers ...answer) {
	o.mu.Lock()
	o.mu.queue = append(o.mu.queue, answers...)
	if o.mu.writing {
		o.mu.Unlock()
		return
	}
	o.mu.writing = true
	var batch []answer
	for len(o.mu.queue) > 0 {
		batch, o.mu.queue = o.mu.queue, batch[:0]
		failed := o.mu.failed
		o.mu.Unlock()
		if !failed {
			if err := o.write(batch); err != nil {
				failed = true
				o.broken(err)
			}
		}
		for i := range batch {
			putBuffer(batch[i].frame)
			o.sent(&batch[i])
		}
		clear(batch)
		o.mu.Lock()
		o.mu.failed = failed
	}
	o.mu.writing = false
	// An idle connection keeps no queue.
	o.mu.queue = nil
	o.mu.Unlock()
}

// write sends the frames in their order, small ones together.
func (o *outbox) write(batch []answer) error {
	if len(batch) == 1 {
		return o.writeChunks(batch[0].frame)
	}
	gathered := getBuffer(gatherSize)
	defer func() { putBuffer(gathered) }()
	flush := func() error {
		if len(gathered) == 0 {
			return nil
		}
		err := o.writeChunks(gathered)
		gathered = gathered[:0]
		return err
	}
	for i := range batch {
		frame := batch[i].frame
		if len(gathered)+len(frame) > gatherSize {
			if err := flush(); err != nil {
				return err
			}
		}
		if len(frame) <= gatherSize {
			gathered = append(gathered, frame...)
			continue
		}
		if err := o.writeChunks(frame); err != nil {
			return err
		}
	}
	return flush()
}

// writeChunks writes, with a deadline for each MiB: a client may be slow, but not
// stop.
func (o *outbox) writeChunks(b []byte) error {
	defer o.stall.End()
	for timed := 0; len(b) > 0; {
		if timed <= 0 {
			if err := o.conn.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
				return err
			}
			timed = timedBytes
		}
		o.stall.Begin()
		n, err := o.conn.Write(b[:min(len(b), writeChunk)])
		o.bytes.Add(float64(n))
		if err != nil {
			return err
		}
		b = b[n:]
		timed -= n
	}
	return nil
}
