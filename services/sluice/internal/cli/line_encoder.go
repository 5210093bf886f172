package cli

import (
	"bufio"
	"encoding/json"
	"io"
)

// lineEncoder writes one JSON value a line.
type lineEncoder struct {
	out     *bufio.Writer
	encoder *json.Encoder
}

func newLineEncoder(out io.Writer) *lineEncoder {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	return &lineEncoder{out: buffered, encoder: encoder}
}

func (e *lineEncoder) encode(value any) error { return e.encoder.Encode(value) }
func (e *lineEncoder) flush() error           { return e.out.Flush() }
