package chaos

import (
	"fmt"
	"sync"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// Ledger is what clients know of one topic: what they sent, what was
// acknowledged, what they have read. Methods may be called by several goroutines.
type Ledger struct {
	mu sync.Mutex
	// issued is the number of requests of each writer: a record of any other
	// was invented.
	issued map[int]int
	parts  []partLedger
}

// partLedger is a partition of it.
type partLedger struct {
	// image is what the last check read, by offset. It never changes, only
	// grows.
	image []message
	// known are records that clients were told of since.
	known []placed
}

// placed is a record that stands at an offset.
type placed struct {
	message
	offset int64
}

// NewLedger returns the ledger of a topic.
func NewLedger(partitions int) *Ledger {
	return &Ledger{issued: map[int]int{}, parts: make([]partLedger, partitions)}
}

// Issue returns the number of a writer's next request.
func (l *Ledger) Issue(writer int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.issued[writer]++
	return l.issued[writer] - 1
}

// Know notes that a client was told that a message stands at an offset: from now
// on it may never be anywhere else.
func (l *Ledger) Know(m message, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := &l.parts[m.partition]
	part.known = append(part.known, placed{m, offset})
}

// Checked is the number of records of a partition that checks have read.
func (l *Ledger) Checked(partition int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.parts[partition].image))
}

// Check compares records, read from an offset to the end of a partition, with
// all that is known of it. from must not be above Checked.
func (l *Ledger) Check(partition int, from int64, records []httpapi.Consumed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := &l.parts[partition]
	for i, record := range records {
		if err := l.take(part, partition, from+int64(i), record); err != nil {
			return fmt.Errorf("partition %d, offset %d: %w", partition, from+int64(i), err)
		}
	}
	if end := from + int64(len(records)); end < int64(len(part.image)) {
		return fmt.Errorf("partition %d ends at %d; it was read up to %d before", partition, end, len(part.image))
	}
	if n := len(part.image); n > 0 && part.image[n-1].index != part.image[n-1].count-1 {
		return fmt.Errorf("partition %d ends within a request: %+v", partition, part.image[n-1])
	}
	for _, known := range part.known {
		if known.offset >= int64(len(part.image)) {
			return fmt.Errorf("partition %d, offset %d: acknowledged %+v is lost; the end is %d",
				partition, known.offset, known.message, len(part.image))
		}
		if got := part.image[known.offset]; got != known.message {
			return fmt.Errorf("partition %d, offset %d: acknowledged %+v, read %+v", partition, known.offset, known.message, got)
		}
	}
	part.known = nil
	return nil
}

// take compares one record with the image or adds it.
func (l *Ledger) take(part *partLedger, partition int, offset int64, record httpapi.Consumed) error {
	if record.Offset != offset {
		return fmt.Errorf("the offset read is %d", record.Offset)
	}
	m, err := parseMessage(record.Value)
	if err != nil {
		return err
	}
	if m.partition != partition {
		return fmt.Errorf("%+v was sent elsewhere", m)
	}
	if offset < int64(len(part.image)) {
		if part.image[offset] != m {
			return fmt.Errorf("read %+v before and %+v now", part.image[offset], m)
		}
		return nil
	}
	if m.request >= l.issued[m.writer] {
		return fmt.Errorf("%+v was never sent", m)
	}
	if err := follows(part.image, m); err != nil {
		return err
	}
	part.image = append(part.image, m)
	return nil
}

// follows says whether a message may stand at the end of an image: the records
// of a request stand together and in order, and requests of a writer, who waits
// for each, follow one another. So nothing is there twice either.
func follows(image []message, m message) error {
	if len(image) > 0 {
		last := image[len(image)-1]
		if last.index < last.count-1 {
			if last.id() == m.id() && m.index == last.index+1 && m.count == last.count {
				return nil
			}
			return fmt.Errorf("%+v follows an incomplete %+v", m, last)
		}
	}
	if m.index != 0 {
		return fmt.Errorf("%+v is there without what belongs before it", m)
	}
	for i := len(image) - 1; i >= 0; i-- {
		if image[i].writer == m.writer {
			if image[i].request >= m.request {
				return fmt.Errorf("%+v comes after %+v", m, image[i])
			}
			break
		}
	}
	return nil
}
