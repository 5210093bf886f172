package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/integration/httpapi"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// fetchBytes is the size of the log that is read, in payload.
const fetchBytes = 256 << 20

// BenchmarkFetch reads a log from its start to its end, again and again: from
// the page cache, and after that was emptied of it. One operation is one answer.
func BenchmarkFetch(b *testing.B) {
	for _, kind := range []string{"hot", "cold"} {
		b.Run("HTTP: "+kind, func(b *testing.B) {
			s := newServer(b, 1)
			fillServer(b, s)
			measureReader(b, Row{Name: "fetch over HTTP, " + kind + " log, 1 reader"}, kind, s.DataDir(), func(offset int64) (int64, int, error) {
				page, err := s.api.Consume(b.Context(), topic, 0, offset)
				if err == nil && len(page.Records) == 0 {
					return 0, 0, nil
				}
				return page.NextOffset, len(page.Records), err
			}, s.process(), self())
		})
		b.Run("storage gRPC: "+kind, func(b *testing.B) {
			e := newEngine(b, 1)
			fillEngine(b, e)
			log := e.overTCP(b)
			measureReader(b, Row{Name: "fetch over storage gRPC, " + kind + " log, 1 reader"}, kind, e.dir, func(offset int64) (int64, int, error) {
				return e.fetch(b.Context(), log, offset)
			}, self())
		})
	}
}

// measureReader reads with next, which returns the offset to go on with and how
// many records there were, none at the end.
func measureReader(b *testing.B, row Row, kind, dir string, next func(offset int64) (int64, int, error), processes ...process) {
	var offset, records int64
	var answers int
	w := work{callers: 1, do: func(int) error {
		if offset == 0 && kind == "cold" {
			if err := dropCache(dir); err != nil {
				return err
			}
		}
		after, n, err := next(offset)
		if err != nil {
			return err
		}
		if offset = after; n > 0 {
			records += int64(n)
			answers++
		}
		return nil
	}}
	// The answers' sizes follow from the first pass.
	_, err := run(w, window()/5)
	require.NoError(b, err)
	w.records = int(records) / answers
	w.bytes = w.records * doorSize
	measure(b, row, w, processes...)
}

func fillServer(b *testing.B, s server) {
	clients := s.dial(b, doorClients)
	request := produceRequest(doorRecords, doorSize)
	var callers sync.WaitGroup
	for _, client := range clients {
		callers.Go(func() {
			for range fetchBytes / (doorRecords * doorSize) / doorClients {
				if _, err := client.Produce(b.Context(), request); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	require.False(b, b.Failed())
}

func fillEngine(b *testing.B, e *engine) {
	batch := newBatch(b, doorRecords, doorSize)
	for range fetchBytes / (doorRecords * doorSize) {
		require.NoError(b, e.append(b.Context(), 0, batch))
	}
}

// overTCP serves the node on loopback and returns a client of that.
func (e *engine) overTCP(b *testing.B) storagev1.StorageServiceClient {
	server := rpc.NewServer(rpc.ServerOptions{Options: rpc.Options{Logger: slog.New(slog.DiscardHandler)}})
	e.node.Register(server)
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	dialer := rpc.NewTCP(rpc.TCPOptions{})
	b.Cleanup(func() {
		require.NoError(b, dialer.Close())
		cancel()
		require.NoError(b, <-served)
	})
	conn, err := dialer.Conn(b.Context(), "n", listener.Addr().String())
	require.NoError(b, err)
	return storagev1.NewStorageServiceClient(conn)
}

func (e *engine) fetch(ctx context.Context, log storagev1.StorageServiceClient, offset int64) (int64, int, error) {
	response, err := log.Fetch(ctx, &storagev1.FetchRequest{
		Isolation: storagev1.Isolation_ISOLATION_READ_COMMITTED,
		MaxBytes:  httpapi.MaxBytes,
		Fetches:   []*storagev1.FetchRequest_PartitionFetch{{Partition: e.partition(0), Offset: offset, MaxBytes: httpapi.MaxBytes}},
	})
	if err != nil {
		return 0, 0, err
	}
	fetched := response.Fetched[0]
	if fetched.Error != nil {
		return 0, 0, fmt.Errorf("fetch: %s: %s", fetched.Error.Code, fetched.Error.Message)
	}
	if len(fetched.Batches) == 0 {
		return 0, 0, nil
	}
	return fetched.NextOffset, int(fetched.NextOffset - offset), nil
}

// dropCache empties the page cache of all logs in a folder.
func dropCache(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
	})
}
