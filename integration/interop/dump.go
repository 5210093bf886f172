package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dumped is what Apache Kafka's DumpLogSegments prints of a log file.
type Dumped struct {
	Batches []Batch
	Records []Record
}

// Batch is the line of a batch.
type Batch struct {
	BaseOffset, LastOffset int64
	Count                  int
	LeaderEpoch            int
	Valid                  bool
}

// Record is the line of a record. A key is nil where none is printed.
type Record struct {
	Offset, Timestamp int64
	Key               *string
	Value             string
}

var (
	batchLine  = regexp.MustCompile(`^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (-?\d+) .*isvalid: (true|false)$`)
	recordLine = regexp.MustCompile(`^\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ headerKeys: \[\](?: key: (.*?))?(?: payload: (.*))?$`)
	// harmless are lines without a finding.
	harmless = regexp.MustCompile(`^(Dumping .*|Log starting offset: \d+|)$`)
)

// ParseDump reads the tool's output. A line that it does not know is an error:
// it is how the tool tells that it dislikes something.
func ParseDump(text string) (Dumped, error) {
	var d Dumped
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := batchLine.FindStringSubmatch(line); m != nil {
			count, _ := strconv.Atoi(m[3])
			epoch, _ := strconv.Atoi(m[4])
			d.Batches = append(d.Batches, Batch{number(m[1]), number(m[2]), count, epoch, m[5] == "true"})
			continue
		}
		if m := recordLine.FindStringSubmatch(line); m != nil {
			r := Record{Offset: number(m[1]), Timestamp: number(m[2]), Value: m[6]}
			if m[3] != "-1" {
				r.Key = &m[5]
			}
			d.Records = append(d.Records, r)
			continue
		}
		if !harmless.MatchString(line) {
			return Dumped{}, fmt.Errorf("DumpLogSegments says %q", line)
		}
	}
	return d, nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
