package apijson

import (
	"slices"
	"strconv"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// unmarshalProduce does for ProduceRequest what unmarshalAny does for all
// messages, at a tenth of the cost. The topic comes from the path and is left
// alone.
func unmarshalProduce(data []byte, m *logv1.ProduceRequest) error {
	d := &produceDecoder{scanner: scanner{data: data}, request: m}
	if d.peek() == 0 && d.pos >= len(data) {
		return errEmptyBody
	}
	d.recordField = d.readRecordField
	d.record = d.readRecord
	if err := d.object(d.readField); err != nil {
		return err
	}
	return d.end()
}

// A produceDecoder reads one ProduceRequest.
type produceDecoder struct {
	scanner
	request *logv1.ProduceRequest

	// Where the next records go. Records are made many at once.
	slots []recordSlot
	// The record that is being read.
	current *recordSlot
	// Where the list of records began.
	listStart int

	// The methods of these names, bound once instead of once a record.
	record      func(i int) error
	recordField func(name []byte) error
}

// A recordSlot is a record with room for what it points to.
type recordSlot struct {
	record    logv1.ProduceRecord
	partition int32
	sequence  int64
}

func (d *produceDecoder) readField(name []byte) error {
	switch string(name) {
	case "records":
		return within("records", d.readRecords())
	case "producer_id":
		return within("producer_id", d.readProducerID())
	default:
		return d.skip()
	}
}

func (d *produceDecoder) readProducerID() error {
	d.request.ProducerId = nil
	if null, err := d.null(); null || err != nil {
		return err
	}
	text, err := d.text()
	if err != nil {
		return err
	}
	id := string(text)
	d.request.ProducerId = &id
	return nil
}

func (d *produceDecoder) readRecords() error {
	d.request.Records = nil
	if null, err := d.null(); null || err != nil {
		return err
	}
	d.listStart = d.pos
	return d.list(d.record)
}

func (d *produceDecoder) readRecord(i int) error {
	if err := tooMany(i); err != nil {
		return err
	}
	if len(d.slots) == 0 {
		d.grow(i)
	}
	d.current, d.slots = &d.slots[0], d.slots[1:]
	if err := d.object(d.recordField); err != nil {
		return within("["+strconv.Itoa(i)+"]", err)
	}
	d.request.Records = append(d.request.Records, &d.current.record)
	return nil
}

// grow makes room for the records that are still to come if they are as long as
// the i before them.
func (d *produceDecoder) grow(i int) {
	const most = 1024
	n := 1
	if i > 0 {
		average := (d.pos - d.listStart) / i
		n = min((len(d.data)-d.pos)/average+1, most)
	}
	d.slots = make([]recordSlot, n)
	d.request.Records = slices.Grow(d.request.Records, n)
}

func (d *produceDecoder) readRecordField(name []byte) error {
	switch string(name) {
	case "value":
		return within("value", d.readBytes(&d.current.record.Value))
	case "key":
		return within("key", d.readBytes(&d.current.record.Key))
	case "partition":
		return within("partition", d.readPartition(d.current))
	case "sequence":
		return within("sequence", d.readSequence(d.current))
	default:
		return d.skip()
	}
}

// readBytes reads a string, which is never nil, or null, which is.
func (d *produceDecoder) readBytes(into *[]byte) error {
	*into = nil
	if null, err := d.null(); null || err != nil {
		return err
	}
	text, err := d.text()
	*into = text
	return err
}

func (d *produceDecoder) readPartition(slot *recordSlot) error {
	slot.record.Partition = nil
	if null, err := d.null(); null || err != nil {
		return err
	}
	n, err := d.integer(32)
	slot.partition = int32(n)
	slot.record.Partition = &slot.partition
	return err
}

func (d *produceDecoder) readSequence(slot *recordSlot) error {
	slot.record.Sequence = nil
	if null, err := d.null(); null || err != nil {
		return err
	}
	n, err := d.integer(64)
	slot.sequence = n
	slot.record.Sequence = &slot.sequence
	return err
}

func appendProduceResponse(dst []byte, m *logv1.ProduceResponse) []byte {
	dst = append(dst, `{"results":[`...)
	for i, r := range m.GetResults() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"partition":`...)
		dst = strconv.AppendInt(dst, int64(r.GetPartition()), 10)
		dst = append(dst, `,"offset":`...)
		dst = strconv.AppendInt(dst, r.GetOffset(), 10)
		if r.GetDuplicate() {
			dst = append(dst, `,"duplicate":true`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}
