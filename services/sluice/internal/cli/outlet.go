package cli

import (
	"context"
	"fmt"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// outlet is how the batches of a produce go to the server.
type outlet interface {
	// send sends a batch, after those before it. It may return before the batch is
	// on disk. After an error only drain is called.
	send(ctx context.Context, b batch) error
	// drain waits for what was sent and gives the outlet up. It is called once.
	drain() error
}

// onDisk hears of each batch that is on disk, in the order in which they were sent
// and one at a time.
type onDisk func(b batch, placed []producedView) error

// unary sends one request after the other over gRPC.
type unary struct {
	server *remote
	topic  string
	// numbers is nil without a producer.
	numbers *sequencer
	done    onDisk
}

var _ outlet = (*unary)(nil)

func (u *unary) send(ctx context.Context, b batch) error {
	response, err := u.request(ctx, &logv1.ProduceRequest{Topic: u.topic, Records: b.records})
	if err != nil {
		if ambiguous(err) {
			return fmt.Errorf("%w; not known whether it was written: %s", err, count(len(b.records), "record"))
		}
		return err
	}
	placed := make([]producedView, len(response.GetResults()))
	for i, result := range response.GetResults() {
		placed[i] = producedView{result.GetPartition(), result.GetOffset(), result.GetDuplicate()}
	}
	return u.done(b, placed)
}

func (u *unary) request(ctx context.Context, request *logv1.ProduceRequest) (*logv1.ProduceResponse, error) {
	if u.numbers == nil {
		return call(ctx, u.server, u.server.log.Produce, request)
	}
	return u.numbers.send(ctx, u.server, request)
}

func (u *unary) drain() error {
	u.server.close()
	return nil
}
