package cli

import (
	"io"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// recordWriter writes records as one line each.
type recordWriter struct {
	lines *lineEncoder
	form  func(*logv1.Record) error
}

// newRecordWriter writes values as they are ("text"; with their keys before a
// separator, if there is one), or records as JSON with keys and values as text
// ("json", which replaces what is no UTF-8) or as base64 ("base64").
func newRecordWriter(out io.Writer, form, keySeparator string) *recordWriter {
	w := &recordWriter{lines: newLineEncoder(out)}
	switch form {
	case "json":
		w.form = func(r *logv1.Record) error {
			return w.lines.encode(textRecord{r.GetPartition(), r.GetOffset(), r.GetTimestampMs(), textKey(r), string(r.GetValue())})
		}
	case "base64":
		w.form = func(r *logv1.Record) error {
			return w.lines.encode(base64Record{r.GetPartition(), r.GetOffset(), r.GetTimestampMs(), r.Key, nonNil(r.GetValue())})
		}
	default:
		w.form = func(r *logv1.Record) error {
			out := w.lines.out
			if keySeparator != "" {
				out.Write(r.GetKey())
				out.WriteString(keySeparator)
			}
			out.Write(r.GetValue())
			// The buffer keeps the first error of them all.
			return out.WriteByte('\n')
		}
	}
	return w
}

// write writes the records and hands them to the stream.
func (w *recordWriter) write(records []*logv1.Record) error {
	for _, record := range records {
		if err := w.form(record); err != nil {
			return err
		}
	}
	return w.lines.flush()
}

type textRecord struct {
	Partition   int32   `json:"partition"`
	Offset      int64   `json:"offset"`
	TimestampMs int64   `json:"timestamp_ms"`
	Key         *string `json:"key"`
	Value       string  `json:"value"`
}

// base64Record has its bytes in base64, as encoding/json writes them; a key
// that is not there is null.
type base64Record struct {
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	TimestampMs int64  `json:"timestamp_ms"`
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
}

func textKey(record *logv1.Record) *string {
	if record.Key == nil {
		return nil
	}
	key := string(record.Key)
	return &key
}
