package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// sequencedWriter is an idempotent producer that lives through the kills: what it
// does not know the outcome of it sends again when the server is back. So each of
// its records must be there exactly once, which the ledger sees: a request of a
// writer never stands behind itself.
type sequencedWriter struct {
	writer
	api *httpapi.Client
	id  string
	// sequences are the next by partition.
	sequences []int64
	// pending is the request that was not answered yet, if any.
	pending []message
	records []httpapi.Record
	// tries is how often it was sent.
	tries int
	// retried counts requests that were sent again, known those of them that had
	// been written, wholly or in part.
	retried, known int
}

func newSequencedWriter(number int, api *httpapi.Client, topic string, ledger *Ledger, seed uint64) *sequencedWriter {
	return &sequencedWriter{
		writer: writer{number: number, topic: topic, ledger: ledger, random: rand.New(rand.NewPCG(seed, 0))},
		api:    api, id: fmt.Sprintf("writer-%d", number), sequences: make([]int64, len(ledger.parts)),
	}
}

// run returns with the first error, and goes on with the same request next time.
func (w *sequencedWriter) run(ctx context.Context) error {
	for {
		if err := w.once(ctx); err != nil {
			return err
		}
	}
}

// finish has the last request answered.
func (w *sequencedWriter) finish(ctx context.Context) error {
	if w.pending == nil {
		return nil
	}
	return w.once(ctx)
}

func (w *sequencedWriter) once(ctx context.Context) error {
	if w.pending == nil {
		w.pending, w.records, w.tries = w.next(), nil, 0
		for _, m := range w.pending {
			record := httpapi.To(m.partition, m.value())
			record.Sequence = new(w.sequences[m.partition])
			w.sequences[m.partition]++
			w.records = append(w.records, record)
		}
	}
	w.tries++
	results, err := w.api.ProduceAs(ctx, w.id, w.topic, w.records)
	if err != nil {
		return err
	}
	duplicate := false
	for i, m := range w.pending {
		w.ledger.Know(m, results[i].Offset)
		duplicate = duplicate || results[i].Duplicate
	}
	switch {
	case duplicate && w.tries == 1:
		return fmt.Errorf("%s: a first request was called a duplicate", w.id)
	case w.tries > 1:
		w.retried++
		if duplicate {
			w.known++
		}
	}
	w.pending = nil
	return nil
}
