package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// written returns records as they are read, from offset 0 on.
func written(messages ...message) []httpapi.Consumed {
	var records []httpapi.Consumed
	for i, m := range messages {
		records = append(records, httpapi.Consumed{Partition: m.partition, Offset: int64(i), Value: m.value()})
	}
	return records
}

func TestLedger(t *testing.T) {
	a := message{writer: 1, request: 0, count: 1}
	b0 := message{writer: 2, request: 0, count: 2}
	b1 := message{writer: 2, request: 0, index: 1, count: 2}
	c := message{writer: 1, request: 1, count: 1}
	elsewhere := message{writer: 1, request: 0, partition: 1, count: 1}
	never := message{writer: 3, request: 0, count: 1}

	for name, test := range map[string]struct {
		known   map[int64]message
		before  []message
		records []httpapi.Consumed
		fault   string
	}{
		"all that was acknowledged":        {known: map[int64]message{0: a, 3: c}, records: written(a, b0, b1, c)},
		"what was not acknowledged":        {records: written(a, c)},
		"nothing":                          {},
		"lost":                             {known: map[int64]message{0: a, 1: c}, records: written(a), fault: "is lost"},
		"moved":                            {known: map[int64]message{1: a}, records: written(b0, b1, a), fault: "acknowledged"},
		"twice":                            {records: written(a, a), fault: "comes after"},
		"twice, apart":                     {records: written(a, b0, b1, a), fault: "comes after"},
		"out of order":                     {records: written(c, a), fault: "comes after"},
		"half a request":                   {records: written(b0), fault: "within a request"},
		"half a request between others":    {records: written(b0, a), fault: "incomplete"},
		"the second half":                  {records: written(a, b1), fault: "without what belongs"},
		"of another partition":             {records: written(elsewhere), fault: "sent elsewhere"},
		"invented":                         {records: written(never), fault: "never sent"},
		"no message":                       {records: []httpapi.Consumed{{Value: "hello"}}, fault: "nobody wrote"},
		"a gap":                            {records: []httpapi.Consumed{{Offset: 1, Value: a.value()}}, fault: "the offset read is 1"},
		"shorter than before":              {before: []message{a, c}, records: written(a), fault: "read up to 2 before"},
		"other than before":                {before: []message{a}, records: written(b0, b1), fault: "before and"},
		"the same as before and some more": {before: []message{a}, records: written(a, b0, b1)},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(2)
			for range 2 {
				l.Issue(1)
			}
			l.Issue(2)
			require.NoError(t, l.Check(0, 0, written(test.before...)))
			for offset, m := range test.known {
				l.Know(m, offset)
			}
			err := l.Check(0, 0, test.records)
			if test.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.fault)
		})
	}
}

func TestMessages(t *testing.T) {
	for _, m := range []message{{}, {1, 2, 3, 4, 5}, {writer: 9, request: 50, partition: 1, index: 3, count: 20}} {
		got, err := parseMessage(m.value())
		require.NoError(t, err)
		require.Equal(t, m, got)
		_, err = parseMessage(m.value() + "x")
		require.Error(t, err)
	}
	for _, text := range []string{"", "w", "w1.2 p3", "w1.2 p3 4/", "w-1.2 p3 4/5 "} {
		_, err := parseMessage(text)
		require.Error(t, err, text)
	}
}
