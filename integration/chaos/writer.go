package chaos

import (
	"context"
	"math/rand/v2"

	"google.golang.org/grpc"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// producer appends messages to a topic and returns the offset of each.
type producer interface {
	produce(ctx context.Context, topic string, messages []message) ([]int64, error)
}

// httpProducer goes through HTTP.
type httpProducer struct{ api *httpapi.Client }

func (p httpProducer) produce(ctx context.Context, topic string, messages []message) ([]int64, error) {
	records := make([]httpapi.Record, len(messages))
	for i, m := range messages {
		records[i] = httpapi.To(m.partition, m.value())
	}
	results, err := p.api.Produce(ctx, topic, records)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(results))
	for i, result := range results {
		offsets[i] = result.Offset
	}
	return offsets, nil
}

// grpcProducer goes through gRPC.
type grpcProducer struct{ log logv1.LogServiceClient }

func newGRPCProducer(conn grpc.ClientConnInterface) grpcProducer {
	return grpcProducer{logv1.NewLogServiceClient(conn)}
}

func (p grpcProducer) produce(ctx context.Context, topic string, messages []message) ([]int64, error) {
	request := &logv1.ProduceRequest{Topic: topic}
	for _, m := range messages {
		partition := int32(m.partition)
		request.Records = append(request.Records, &logv1.ProduceRecord{Value: []byte(m.value()), Partition: &partition})
	}
	response, err := p.log.Produce(ctx, request)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(response.Results))
	for i, result := range response.Results {
		offsets[i] = result.Offset
	}
	return offsets, nil
}

// writer sends one request after the other until the server is gone.
type writer struct {
	number   int
	producer producer
	topic    string
	ledger   *Ledger
	random   *rand.Rand
}

// run returns with the first error: whether that request was written is open.
func (w *writer) run(ctx context.Context) error {
	for {
		messages := w.next()
		offsets, err := w.producer.produce(ctx, w.topic, messages)
		if err != nil {
			return err
		}
		for i, m := range messages {
			w.ledger.Know(m, offsets[i])
		}
	}
}

// next makes a request for one partition, or for several.
func (w *writer) next() []message {
	number := w.ledger.Issue(w.number)
	partitions := w.random.Perm(len(w.ledger.parts))
	if w.random.IntN(3) > 0 {
		partitions = partitions[:1]
	}
	var messages []message
	for _, partition := range partitions {
		count := 1 + w.random.IntN(20)
		for index := range count {
			messages = append(messages, message{w.number, number, partition, index, count})
		}
	}
	return messages
}
