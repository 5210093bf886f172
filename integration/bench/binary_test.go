package bench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/client/binary"
	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
	"github.com/sluiceio/sluice/integration/loopback"
	"github.com/sluiceio/sluice/integration/usage"
)

// binaryServer is a server that serves the binary protocol too.
type binaryServer struct {
	server
	address string
}

func newBinaryServer(b testing.TB, partitions int) binaryServer {
	b.Helper()
	address := loopback.FreeAddress(b)
	s := server{Process: cluster.NewProcess(b, cluster.Options{Flags: []string{"--bind-binary", address, "--binary-max-connections-per-ip", "0"}})}
	cluster.Start(b, s)
	s.api = httpapi.New(s.HTTP())
	b.Cleanup(s.api.Close)
	require.NoError(b, s.api.CreateTopic(b.Context(), topic, partitions, nil))
	return binaryServer{s, address}
}

func (s binaryServer) clients(b testing.TB, n int) []*binary.Client {
	clients := make([]*binary.Client, n)
	for i := range clients {
		var err error
		clients[i], err = binary.New(s.address)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, clients[i].Close()) })
	}
	return clients
}

func binaryProduce(records, size int) binary.Produce {
	p := binary.Produce{Topic: topic}
	for range records {
		p.Records = append(p.Records, binary.Record{Value: letters(size), Partition: binary.To(0)})
	}
	return p
}

// BenchmarkBinary: the binary protocol beside the bare disk, which does the same
// number of syncs, and HTTP.
func BenchmarkBinary(b *testing.B) {
	const load = "8 clients, 500 records of 256 B"
	disk := Row{Name: "disk: " + load}
	for _, file := range []diskFile{overwritten, growing} {
		row := disk
		if file == growing {
			row = Row{Name: disk.Name + ", its file grows", Against: disk.Name}
		}
		b.Run(row.Name, func(b *testing.B) {
			w := doorLoad
			w.do = writeToDisks(b, 1, doorClients, newBatch(b, doorRecords, doorSize), file)
			measure(b, row, w, self())
		})
	}
	b.Run("binary: "+load, func(b *testing.B) {
		s := newBinaryServer(b, 1)
		clients := s.clients(b, doorClients)
		request := binaryProduce(doorRecords, doorSize)
		w := doorLoad
		w.do = func(caller int) error {
			_, err := clients[caller].Produce(b.Context(), request)
			return err
		}
		measure(b, Row{Name: "binary: " + load, Against: disk.Name}, w, s.process(), self())
	})
	b.Run("binary pipelined: 64 in flight, 10 records of 256 B", func(b *testing.B) {
		s := newBinaryServer(b, 1)
		const inFlight, records = 64, 10
		client, err := binary.NewPipelined(s.address, binary.WithInFlight(inFlight))
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, client.Close()) })
		request := binaryProduce(records, doorSize)
		w := work{callers: inFlight, records: records, bytes: records * doorSize}
		w.do = func(int) error {
			_, err := client.Produce(b.Context(), request)
			return err
		}
		measure(b, Row{Name: "binary pipelined: 64 in flight, 10 records of 256 B", Against: disk.Name}, w, s.process(), self())
	})
	b.Run("binary consume: fetches of 4 MiB", func(b *testing.B) {
		s := newBinaryServer(b, 1)
		fillServer(b, s.server)
		client := s.clients(b, 1)[0]
		measureReader(b, Row{Name: "fetch over binary, 4 MiB each, hot log, 1 reader"}, "hot", s.DataDir(), func(offset int64) (int64, int, error) {
			got, err := client.Consume(b.Context(), binary.Consume{Topic: topic, Offset: offset, MaxRecords: 20_000, MaxBytes: 4 << 20})
			if err != nil || len(got.Records) == 0 {
				return 0, 0, err
			}
			return got.NextOffset, len(got.Records), nil
		}, s.process(), self())
	})
	b.Run("1,000 idle connections", func(b *testing.B) {
		if b.N > 1 {
			return // one answer is enough, however soon it was there
		}
		s := newBinaryServer(b, 1)
		idleConnections(b, s)
	})
}

// idleConnections measures what connections cost that have been used and are idle.
func idleConnections(b *testing.B, s binaryServer) {
	const n = 1000
	request := binaryProduce(doorRecords, doorSize)
	use := func(c *binary.Client) {
		_, err := c.Produce(b.Context(), request)
		require.NoError(b, err)
		require.NoError(b, c.Ping(b.Context()))
	}
	// As many requests as there will be, over one connection: the heap has then grown
	// by what it grows between two collections, whoever asks.
	first := s.clients(b, 1)[0]
	for range n {
		use(first)
	}
	before, err := usage.Of(s.PID())
	require.NoError(b, err)
	clients := s.clients(b, n)
	for _, c := range clients {
		use(c)
	}
	after, err := usage.Of(s.PID())
	require.NoError(b, err)
	report(b, Row{Name: "1,000 idle binary connections", Note: fmt.Sprintf("%d MiB before, %d MiB with them", before.RSS>>20, after.RSS>>20)})
}
