package gateway_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
)

// What BenchmarkHTTPProduce does, over the binary protocol.
func BenchmarkBinaryProduce(b *testing.B) {
	for _, keyed := range []bool{false, true} {
		b.Run(fmt.Sprintf("keyed=%t", keyed), func(b *testing.B) {
			s := startOn(b, clustertest.New(b, "a"), withBinary)
			s.steps(b, create("t", "6"))
			s.Storage["a"].Discard()
			payload := []byte("\x00\x01t" + "\xff\xff\xff\xff" + "\x00\x00\x01\xf4")
			for i := range 500 {
				if key := fmt.Sprintf("user-%d", i); keyed {
					payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(key))), key...)
				} else {
					payload = append(payload, "\xff\xff\xff\xff"...)
				}
				payload = fmt.Appendf(payload, "\x00\x00\x01\x00%0256d", i)
				partition := int32(0)
				if keyed {
					partition = -1
				}
				payload = binary.BigEndian.AppendUint32(payload, uint32(partition))
				payload = append(payload, "\x80\x00\x00\x00\x00\x00\x00\x00"...)
			}
			frame := append(binary.BigEndian.AppendUint32(nil, uint32(5+len(payload))), "\x00\x00\x00\x01\x01"...)
			frame = append(frame, payload...)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				conn, err := net.Dial("tcp", s.service.BinaryAddr().String())
				require.NoError(b, err)
				defer conn.Close()
				require.NoError(b, helloAndPing(conn))
				answer := make([]byte, 9+4+500*13)
				for pb.Next() {
					if _, err := conn.Write(frame); err != nil {
						b.Error(err)
						return
					}
					if _, err := io.ReadFull(conn, answer); err != nil || answer[8] != 0x81 {
						b.Errorf("%v: %q", err, answer[9:])
						return
					}
				}
			})
		})
	}
}
