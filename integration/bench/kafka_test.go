package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/integration/kafkapeer"
	"github.com/sluiceio/sluice/integration/usage"
)

const (
	recordSize = 1 << 10
	// warmJVM is how long a broker works before it is measured, so that its hot
	// code is compiled.
	warmJVM = 10 * time.Second
)

// BenchmarkKafka: Apache Kafka with a sync before each acknowledgement, under
// franz-go, beside our gRPC door with the same callers.
func BenchmarkKafka(b *testing.B) {
	for _, callers := range []int{1, 64} {
		load := fmt.Sprintf("%d waiting for each record, 1 KiB", callers)
		kafka := Row{Name: "Apache Kafka, durable: " + load}
		b.Run(kafka.Name, func(b *testing.B) {
			broker := newBroker(b)
			client := newKafkaClient(b, broker)
			value := letters(recordSize)
			w := work{callers: callers, records: 1, bytes: recordSize, warm: warmJVM, do: func(int) error {
				return client.ProduceSync(b.Context(), &kgo.Record{Topic: topic, Value: value}).FirstErr()
			}}
			measure(b, kafka, w, process{"kafka", broker.PID()}, self())
		})
		ours := Row{Name: "gRPC: " + load, Against: kafka.Name}
		b.Run(ours.Name, func(b *testing.B) {
			s := newServer(b, 1)
			clients := s.dial(b, 1)
			request := produceRequest(1, recordSize)
			w := work{callers: callers, records: 1, bytes: recordSize, do: func(int) error {
				_, err := clients[0].Produce(b.Context(), request)
				return err
			}}
			measure(b, ours, w, s.process(), self())
		})
	}
	streaming := Row{Name: "Apache Kafka, durable: streaming 1 KiB"}
	b.Run(streaming.Name, func(b *testing.B) {
		broker := newBroker(b)
		client := newKafkaClient(b, broker)
		measureStream(b, streaming, broker, client)
		measureConsumer(b, Row{Name: "Apache Kafka: consume 1 KiB, hot"}, broker)
	})
	ours := Row{Name: "gRPC: streaming, 8 requests of 500 records of 1 KiB in flight", Against: streaming.Name}
	b.Run(ours.Name, func(b *testing.B) {
		s := newServer(b, 1)
		clients := s.dial(b, doorClients)
		request := produceRequest(doorRecords, recordSize)
		w := work{callers: doorClients, records: doorRecords, bytes: doorRecords * recordSize, do: func(caller int) error {
			_, err := clients[caller].Produce(b.Context(), request)
			return err
		}}
		measure(b, ours, w, s.process(), self())
		measureGRPCConsumer(b, Row{Name: "gRPC: consume 1 KiB, hot", Against: "Apache Kafka: consume 1 KiB, hot"}, s, clients[0])
	})
}

func newBroker(b *testing.B) *kafkapeer.Broker {
	broker := kafkapeer.Require(b).NewBroker(b, map[string]string{"log.flush.interval.messages": "1"})
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(b, broker.Start(ctx))
	return broker
}

func newKafkaClient(b *testing.B, broker *kafkapeer.Broker) *kgo.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Address()), kgo.AllowAutoTopicCreation(),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(b, err)
	b.Cleanup(client.Close)
	return client
}

// measureStream produces without waiting, as fast as the client's buffer allows.
func measureStream(b *testing.B, row Row, broker *kafkapeer.Broker, client *kgo.Client) {
	value := letters(recordSize)
	var count int
	var failed error
	stream := func(d time.Duration) {
		count = 0
		var mu sync.Mutex
		for until := time.Now().Add(d); time.Now().Before(until); {
			client.Produce(b.Context(), &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if count++; err != nil {
					failed = err
				}
			})
		}
		require.NoError(b, client.Flush(b.Context()))
		require.NoError(b, failed)
	}
	stream(warmJVM)
	m, err := startMeter(process{"kafka", broker.PID()}, self())
	require.NoError(b, err)
	began := time.Now()
	stream(window())
	took := time.Since(began)
	row.Used, err = m.stop()
	require.NoError(b, err)
	row.Unit, row.Done, row.Rate = "rec", int64(count), float64(count)/took.Seconds()
	row.Bytes = row.Rate * recordSize
	report(b, row)
}

// measureConsumer reads the topic once from its start.
func measureConsumer(b *testing.B, row Row, broker *kafkapeer.Broker) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Address()), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(b, err)
	defer client.Close()
	m, err := startMeter(process{"kafka", broker.PID()}, self())
	require.NoError(b, err)
	began := time.Now()
	var count, end int64
	for end == 0 || count < end {
		fetches := client.PollFetches(b.Context())
		require.NoError(b, fetches.Err())
		count += int64(fetches.NumRecords())
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { end = p.HighWatermark })
	}
	took := time.Since(began)
	row.Used, err = m.stop()
	require.NoError(b, err)
	row.Unit, row.Done, row.Rate = "rec", count, float64(count)/took.Seconds()
	row.Bytes = row.Rate * recordSize
	report(b, row)
}

// measureGRPCConsumer reads the topic once from its start.
func measureGRPCConsumer(b *testing.B, row Row, s server, client logv1.LogServiceClient) {
	m, err := startMeter(s.process(), self())
	require.NoError(b, err)
	began := time.Now()
	partition, maxRecords, maxBytes := int32(0), int32(10_000), int32(8<<20)
	var offset, end int64
	for end == 0 || offset < end {
		page, err := client.Consume(b.Context(), &logv1.ConsumeRequest{
			Topic: topic, Partition: &partition, Offset: &offset, MaxRecords: &maxRecords, MaxBytes: &maxBytes,
		})
		require.NoError(b, err)
		offset, end = page.NextOffset, page.HighWatermark
	}
	took := time.Since(began)
	row.Used, err = m.stop()
	require.NoError(b, err)
	row.Unit, row.Done, row.Rate = "rec", offset, float64(offset)/took.Seconds()
	row.Bytes = row.Rate * recordSize
	report(b, row)
}

// BenchmarkKafkaStart: how long a broker with an empty, formatted directory
// takes to answer, and its memory then.
func BenchmarkKafkaStart(b *testing.B) {
	broker := kafkapeer.Require(b).NewBroker(b, nil)
	began := time.Now()
	require.NoError(b, broker.Start(b.Context()))
	took := time.Since(began)
	settle(window())
	reportStart(b, "Apache Kafka: ready on an empty directory, idle memory", took, broker.PID())
}

// reportStart adds a row about a start.
func reportStart(b *testing.B, name string, took time.Duration, pid int) {
	u, err := usage.Of(pid)
	require.NoError(b, err)
	report(b, Row{Name: name, Note: fmt.Sprintf("%.0f ms, %d MiB, %d threads", float64(took.Microseconds())/1000, u.RSS>>20, u.Threads)})
	b.ReportMetric(took.Seconds()*1000, "ready-ms")
	b.ReportMetric(float64(u.RSS>>20), "idle-MiB")
	settle(window())
}

// settle lets a time go by in which nothing is asked.
func settle(d time.Duration) { <-time.After(d) }
