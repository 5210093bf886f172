package cli

import (
	"context"
	"errors"

	"github.com/sluiceio/sluice/client/binary"
)

// pipeline sends batches over the binary protocol, many before the first is
// answered.
type pipeline struct {
	client *binary.Pipelined
	topic  string
	// numbers is nil without a producer.
	numbers *sequencer
	done    onDisk

	// ctx ends with the command, or with drain.
	ctx    context.Context
	cancel context.CancelFunc
	// sent has what was sent, in order; it is closed by drain.
	sent chan sentBatch
	// failed is closed when a batch was not written, or cannot be told of.
	failed chan struct{}
	// ended is closed when all that was sent has an outcome. err is valid then, and
	// is the first failure.
	ended chan struct{}
	err   error
}

type sentBatch struct {
	batch  batch
	answer *binary.Future[[]binary.Placed]
}

var _ outlet = (*pipeline)(nil)

// unansweredBatches is how many batches may wait for their answers: as many as a
// server works on for one connection.
const unansweredBatches = 32

// newPipeline starts a pipeline, which drain ends.
func newPipeline(ctx context.Context, client *binary.Pipelined, topic string, numbers *sequencer, done onDisk) *pipeline {
	p := &pipeline{
		client: client, topic: topic, numbers: numbers, done: done,
		sent: make(chan sentBatch, unansweredBatches), failed: make(chan struct{}), ended: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	go p.collect()
	return p
}

// errStopped is that the outlet has failed already; drain says why.
var errStopped = errors.New("the connection has failed")

func (p *pipeline) send(ctx context.Context, b batch) error {
	select {
	case <-p.failed:
		return errStopped
	default:
	}
	request := binary.Produce{Topic: p.topic, Records: make([]binary.Record, len(b.records))}
	for i, r := range b.records {
		record := binary.Record{Key: r.Key, Value: r.GetValue()}
		if r.Partition != nil {
			record.Partition = binary.To(r.GetPartition())
		}
		if p.numbers != nil {
			request.ProducerID = p.numbers.producer
			record.Sequence = binary.Seq(p.numbers.take())
		}
		request.Records[i] = record
	}
	answer, err := p.client.Send(ctx, request)
	if err != nil {
		return err
	}
	select {
	case p.sent <- sentBatch{b, answer}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collect takes the answers in the order of the batches. Those behind a batch that
// was refused may have been written all the same, so it goes on to the end.
func (p *pipeline) collect() {
	defer close(p.ended)
	for s := range p.sent {
		placed, err := s.answer.Wait(p.ctx)
		if err == nil {
			views := make([]producedView, len(placed))
			for i, at := range placed {
				views[i] = producedView{at.Partition, at.Offset, at.Duplicate}
			}
			err = p.done(s.batch, views)
		}
		if err != nil && p.err == nil {
			p.err = err
			close(p.failed)
		}
	}
}

func (p *pipeline) drain() error {
	close(p.sent)
	<-p.ended
	p.cancel()
	return errors.Join(p.err, p.client.Close())
}
