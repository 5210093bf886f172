package chaos

import (
	"fmt"
	"strconv"
	"strings"
)

// message is what a test writes as a value: it says which request it belongs to
// and where it goes, so that a record that is read explains itself.
//
//	w<writer>.<request> p<partition> <index>/<count> <padding>
type message struct {
	writer, request int
	partition       int
	// The message is the index-th of count that the request has for the
	// partition.
	index, count int
}

// id names the request.
func (m message) id() request { return request{m.writer, m.request} }

// request names a request of a writer.
type request struct{ writer, number int }

// value is the message with a padding that follows from it.
func (m message) value() string {
	head := fmt.Sprintf("w%d.%d p%d %d/%d ", m.writer, m.request, m.partition, m.index, m.count)
	return head + padding(m)
}

// padding makes values of different sizes, up to some KiB now and then.
func padding(m message) string {
	n := (m.request*31 + m.index*7) % 180
	if m.request%50 == 0 {
		n *= 20
	}
	return strings.Repeat(string(rune('a'+m.request%26)), n)
}

// parseMessage reads a value and checks all of it.
func parseMessage(value string) (message, error) {
	var m message
	head, index, ok := strings.Cut(value, " p")
	writer, number, ok2 := strings.Cut(strings.TrimPrefix(head, "w"), ".")
	partition, index, ok3 := strings.Cut(index, " ")
	index, count, ok4 := strings.Cut(index, "/")
	count, _, ok5 := strings.Cut(count, " ")
	if ok && ok2 && ok3 && ok4 && ok5 {
		m.writer, _ = strconv.Atoi(writer)
		m.request, _ = strconv.Atoi(number)
		m.partition, _ = strconv.Atoi(partition)
		m.index, _ = strconv.Atoi(index)
		m.count, _ = strconv.Atoi(count)
	}
	if m.value() != value {
		return message{}, fmt.Errorf("nobody wrote %.80q", value)
	}
	return m, nil
}
