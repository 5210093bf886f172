package apijson

import (
	"strconv"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

func appendConsumeResponse(dst []byte, m *logv1.ConsumeResponse, style Style) []byte {
	dst = append(dst, `{"records":[`...)
	for i, r := range m.GetRecords() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"partition":`...)
		dst = strconv.AppendInt(dst, int64(r.GetPartition()), 10)
		dst = append(dst, `,"offset":`...)
		dst = strconv.AppendInt(dst, r.GetOffset(), 10)
		dst = append(dst, `,"timestamp_ms":`...)
		dst = strconv.AppendInt(dst, r.GetTimestampMs(), 10)
		dst = append(dst, `,"key":`...)
		if r.Key == nil {
			dst = append(dst, "null"...)
		} else {
			dst = appendBytes(dst, r.Key, style.Keys)
		}
		dst = append(dst, `,"value":`...)
		dst = appendBytes(dst, r.GetValue(), style.Values)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"next_offset":`...)
	dst = strconv.AppendInt(dst, m.GetNextOffset(), 10)
	dst = append(dst, `,"high_watermark":`...)
	dst = strconv.AppendInt(dst, m.GetHighWatermark(), 10)
	return append(dst, '}')
}
