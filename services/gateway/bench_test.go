package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// 500 records of 256 bytes a request over HTTP, with a storage that does
// nothing: what the door and the backend cost, clients included.
func BenchmarkHTTPProduce(b *testing.B) {
	for _, keyed := range []bool{false, true} {
		b.Run(fmt.Sprintf("keyed=%t", keyed), func(b *testing.B) {
			s := startOn(b, clustertest.New(b, "a"))
			s.steps(b, create("t", "6"))
			s.Storage["a"].Discard()
			var records []string
			for i := range 500 {
				r := fmt.Sprintf(`{"value":"%0256d","partition":0}`, i)
				if keyed {
					r = fmt.Sprintf(`{"key":"user-%d","value":"%0256d"}`, i, i)
				}
				records = append(records, r)
			}
			body := `{"records":[` + strings.Join(records, ",") + `]}`
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for pb.Next() {
					if err := exchange(client, "POST", s.url("/topics/t/produce"), body); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkHTTPConsume(b *testing.B) {
	s := startOn(b, clustertest.New(b, "a"))
	s.steps(b, create("t", "1"))
	builder := recordbatch.NewBuilder(recordbatch.Options{})
	for i := range 500 {
		builder.Append(now.UnixMilli(), fmt.Appendf(nil, "user-%d", i), fmt.Appendf(nil, "%0256d", i), nil)
	}
	batch, err := builder.Finish()
	require.NoError(b, err)
	s.Storage["a"].Write(s.Coordinator.Topic("t").GetId(), 0, batch, 0)
	s.Storage["a"].Discard()
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for pb.Next() {
			if err := exchange(client, "GET", s.url("/topics/t/consume?partition=0&offset=0&max_records=500"), ""); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func exchange(client *http.Client, method, url, body string) error {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
