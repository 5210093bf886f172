package binproto

import (
	"bytes"
	"io"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

type countingPacer int

func (p *countingPacer) pace() error {
	*p++
	return nil
}

// A frame that keeps coming keeps getting time, however it is read.
func TestPace(t *testing.T) {
	const size = 10 * stride
	for name, read := range map[string]func(*payload) error{
		"raw": func(p *payload) error {
			_, err := io.Copy(io.Discard, p)
			return err
		},
		"byte by byte": func(p *payload) error {
			for {
				if _, err := (*rawPayload)(p).ReadByte(); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var paced countingPacer
			in := &input{conn: &streamConn{in: bytes.NewReader(make([]byte, size))}, received: prometheus.NewCounter(prometheus.CounterOpts{})}
			defer in.release()
			p := &payload{in: in, left: size, pacer: &paced}
			if err := read(p); err != nil {
				require.Equal(t, io.EOF, err)
			}
			require.Zero(t, p.left)
			require.InDelta(t, size/stride, int(paced), 3)
		})
	}
}
