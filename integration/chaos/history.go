package chaos

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// History is what clients of one partition did and saw, with the times at which
// they began and ended. Methods may be called by several goroutines.
type History struct {
	began time.Time
	mu    sync.Mutex
	all   []porcupine.Operation
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{began: time.Now()} }

// appended is the input of an append; its output is its offset, or unknown.
type appended struct {
	request request
	count   int64
}

// unknown is the offset of an append that was not answered.
const unknown = int64(-1)

// watched is the input of a read; its output is the high watermark that it saw.
type watched struct{}

func (h *History) now() int64 { return int64(time.Since(h.began)) }

func (h *History) add(client int, input any, call int64, output, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: end})
}

// historyProducer notes what goes through a producer. Each message of a call
// must be for the one partition.
type historyProducer struct {
	producer
	history *History
}

func (p historyProducer) produce(ctx context.Context, topic string, messages []message) ([]int64, error) {
	input := appended{messages[0].id(), int64(len(messages))}
	call := p.history.now()
	offsets, err := p.producer.produce(ctx, topic, messages)
	if err != nil {
		// It may take effect at any time from now on.
		p.history.add(input.request.writer, input, call, unknown, math.MaxInt64)
		return nil, err
	}
	p.history.add(input.request.writer, input, call, offsets[0], p.history.now())
	return offsets, nil
}

// linearizable says whether the history can be explained by operations that
// happen at one moment each, between begin and end, on a log that at last looks
// like image. The state of the log is its length.
func (h *History) linearizable(image []message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := map[request]int64{}
	for i := len(image) - 1; i >= 0; i-- {
		at[image[i].id()] = int64(i)
	}
	var kept []porcupine.Operation
	for _, op := range h.all {
		// What was never written and never acknowledged has no effect.
		if in, ok := op.Input.(appended); ok && op.Output.(int64) == unknown {
			if _, there := at[in.request]; !there {
				continue
			}
		}
		kept = append(kept, op)
	}
	model := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			end := state.(int64)
			in, isAppend := input.(appended)
			if !isAppend {
				return output.(int64) == end, end
			}
			where, there := at[in.request]
			answered := output.(int64)
			return there && where == end && (answered == unknown || answered == end), end + in.count
		},
	}
	if verdict := porcupine.CheckOperationsTimeout(model, kept, time.Minute); verdict != porcupine.Ok {
		return fmt.Errorf("the history of %d operations over %d records is not linearizable: %s", len(kept), len(image), verdict)
	}
	return nil
}
