package cli

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/kit/backoff"
)

// knownSequences is how many of a producer's records a partition knows: a larger
// request could not be sent again.
const knownSequences = 128

// sequencer numbers the records of an idempotent producer, all for one partition,
// and sends what is not answered again.
type sequencer struct {
	producer string
	// next is the sequence of the next record.
	next int64
	// patience is how long a request is sent again.
	patience time.Duration
}

// take returns the sequence of the next record.
func (s *sequencer) take() int64 {
	s.next++
	return s.next - 1
}

func (s *sequencer) send(ctx context.Context, server *remote, request *logv1.ProduceRequest) (*logv1.ProduceResponse, error) {
	request.ProducerId = &s.producer
	for _, record := range request.GetRecords() {
		record.Sequence = new(s.take())
	}
	deadline := time.Now().Add(s.patience)
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	for {
		response, err := call(ctx, server, server.log.Produce, request)
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded:
			if time.Now().After(deadline) || wait.Wait(ctx) != nil {
				return nil, err
			}
		default:
			return response, err
		}
	}
}
