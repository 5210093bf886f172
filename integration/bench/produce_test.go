package bench

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// The load of a door: clients that each wait for the answer to a request.
const (
	doorClients = 8
	doorRecords = 500
	doorSize    = 256
)

var doorLoad = work{callers: doorClients, records: doorRecords, bytes: doorRecords * doorSize}

// BenchmarkProduce: the doors beside the same batches sent straight to the
// engine, all into one partition.
func BenchmarkProduce(b *testing.B) {
	const load = "8 clients, 500 records of 256 B"
	straight := Row{Name: "engine: " + load}
	b.Run(straight.Name, func(b *testing.B) {
		e := newEngine(b, 1)
		batch := newBatch(b, doorRecords, doorSize)
		w := doorLoad
		w.do = func(int) error { return e.append(b.Context(), 0, batch) }
		measure(b, straight, w, self())
	})
	b.Run("HTTP: "+load, func(b *testing.B) {
		s := newServer(b, 1)
		body := produceBody(b)
		w := doorLoad
		w.do = func(int) error {
			answer, err := s.api.Do(b.Context(), "POST", "/topics/"+topic+"/produce", body)
			if err == nil && answer.Status != 200 {
				err = fmt.Errorf("produce: %d %s", answer.Status, answer.Body)
			}
			return err
		}
		measure(b, Row{Name: "HTTP: " + load, Against: straight.Name}, w, s.process(), self())
	})
	b.Run("gRPC: "+load, func(b *testing.B) {
		s := newServer(b, 1)
		clients := s.dial(b, doorClients)
		request := produceRequest(doorRecords, doorSize)
		w := doorLoad
		w.do = func(caller int) error {
			_, err := clients[caller].Produce(b.Context(), request)
			return err
		}
		measure(b, Row{Name: "gRPC: " + load, Against: straight.Name}, w, s.process(), self())
	})
}

func produceBody(b *testing.B) []byte {
	records := make([]httpapi.Record, doorRecords)
	for i := range records {
		records[i] = httpapi.To(0, string(letters(doorSize)))
	}
	body, err := json.Marshal(map[string]any{"records": records})
	require.NoError(b, err)
	return body
}
