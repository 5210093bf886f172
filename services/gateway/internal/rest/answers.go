package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/errs"
)

var (
	// errAnswersBusy is that the answers under way take all the memory they may.
	errAnswersBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of answers are under way").WithRetryAfter(time.Second)
	// errSurveysBusy is that as many surveys are put together as may be.
	errSurveysBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many surveys of the server are under way").WithRetryAfter(time.Second)
)

// answers bounds the bytes of all answers that clients have not taken yet: a
// client that asks and does not read keeps what it asked for in memory.
type answers struct {
	budget *semaphore.Weighted
	// Surveys are answers that grow with what the server has, so that their size is
	// known once they are there: of those few are put together at a time.
	surveys *semaphore.Weighted
	// The whole budget: what one answer takes at most, or none larger than it
	// could ever be given.
	whole int64
	// The most that one read answers, but for a first record that is larger.
	maxRecords, maxBytes int
}

// besideRecord is about what a record takes in an answer beside its key and value.
const besideRecord = 100

// A claim is what one answer has taken of the budget.
type claim struct {
	answers *answers
	taken   int64
	// A survey that is being put together.
	surveying bool
}

// survey waits for its turn to put a survey together.
func (c *claim) survey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, budgetTimeout)
	defer cancel()
	if err := c.answers.surveys.Acquire(ctx, 1); err != nil {
		return errSurveysBusy
	}
	c.surveying = true
	return nil
}

// surveyed lets the next one put a survey together.
func (c *claim) surveyed() {
	if c.surveying {
		c.surveying = false
		c.answers.surveys.Release(1)
	}
}

// settle gives back what is taken beyond size bytes. When it is less it gives
// back all and takes size bytes anew, and waits for others to leave room, but not
// for long: if those who wait kept what they have, two could wait for each other.
// Its answer is there: a survey is over.
func (c *claim) settle(ctx context.Context, size int64) error {
	size = min(size, c.answers.whole)
	if size <= c.taken {
		c.answers.budget.Release(c.taken - size)
		c.taken = size
		c.surveyed()
		return nil
	}
	c.answers.budget.Release(c.taken)
	c.taken = 0
	if !c.answers.budget.TryAcquire(size) {
		ctx, cancel := context.WithTimeout(ctx, budgetTimeout)
		defer cancel()
		if err := c.answers.budget.Acquire(ctx, size); err != nil {
			return errAnswersBusy
		}
	}
	c.taken = size
	c.surveyed()
	return nil
}

// release gives back all.
func (c *claim) release() {
	c.surveyed()
	c.answers.budget.Release(c.taken)
	c.taken = 0
}

// reading makes room for the answer of a read before anything is read. A read
// that may wait for its first record does so here, where it takes no room: those
// who wait are many, and most of them hear of little.
func (d *door) reading(r *http.Request, x *exchange, caller grants.Caller) error {
	if err := d.await(r, x, caller); err != nil {
		return err
	}
	most := func(name string, absent, limit int) int64 {
		if text := r.Form.Get(name); text != "" {
			absent, _ = strconv.Atoi(text)
		}
		return int64(max(0, min(absent, limit)))
	}
	size := most("max_bytes", backend.DefaultFetchBytes, d.answers.maxBytes) +
		most("max_records", backend.DefaultFetchRecords, d.answers.maxRecords)*besideRecord
	return x.claim.settle(r.Context(), size)
}

// await waits for a first record when a read asks for that. Afterwards the read
// is one that does not wait. What is wrong with the read is left for the service
// to say.
func (d *door) await(r *http.Request, x *exchange, caller grants.Caller) error {
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(r.Form.Get(name), 10, 64)
		return n, err == nil && n >= 0
	}
	wait, asked := number("max_wait_ms")
	partition, ok := number("partition")
	if !asked || wait == 0 || !ok {
		return nil
	}
	read := backend.Read{Partition: int32(partition), Wait: time.Duration(wait) * time.Millisecond}
	var err error
	if group := x.params["group"]; group != "" {
		read.Topic = r.Form.Get("topic")
		err = d.backend.AwaitGroup(r.Context(), caller, group, read)
	} else {
		if read.Offset, ok = number("offset"); !ok {
			return nil
		}
		read.Topic = x.params["topic"]
		err = d.backend.Await(r.Context(), caller, read)
	}
	if err == nil {
		r.Form.Del("max_wait_ms")
	}
	return err
}
