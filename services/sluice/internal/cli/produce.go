package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/client/binary"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

type produceFlags struct {
	remoteFlags

	file         string
	key          string
	keySeparator string
	partition    int32
	batchRecords int
	batchBytes   int
	maxLineBytes int

	producerID    string
	firstSequence int64

	binary binaryFlags
}

func newProduce() *cobra.Command {
	flags := &produceFlags{}
	command := &cobra.Command{
		Use:   "produce TOPIC [VALUE...]",
		Short: "Append records to a topic",
		Long: "Appends one record for each VALUE, or else for each line of --file or of\n" +
			"standard input. Lines are sent in batches, one after the other, so they keep\n" +
			"their order; a batch is what could be read without waiting. The command\n" +
			"returns when all records are on disk.\n\n" +
			"With --producer-id the records are numbered, from --first-sequence on, and a\n" +
			"request that is not answered is sent again, as long as --timeout, without\n" +
			"writing anything twice.\n\n" +
			"With --binary batches go over the binary protocol, many before the first is\n" +
			"answered, which is the fastest way. When one is refused, some of those after\n" +
			"it may be written.",
		Example: "  sluice produce orders checkout signup\n" +
			"  sluice produce orders --key user-1 checkout\n" +
			"  sluice produce orders --file events.txt --key-separator :\n" +
			"  tail -f app.log | sluice produce logs\n" +
			"  sluice produce logs --binary 127.0.0.1:9001 --file app.log",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeTopic(&flags.remoteFlags),
	}
	flags.remoteFlags.register(command)
	f := command.Flags()
	f.StringVarP(&flags.file, "file", "f", "", "read lines from this file")
	f.StringVarP(&flags.key, "key", "k", "", "key of every record")
	f.StringVar(&flags.keySeparator, "key-separator", "", "what parts key and value; the first one in a line counts")
	f.Int32VarP(&flags.partition, "partition", "p", 0, "partition of every record; by key, else in turn, if absent")
	f.IntVar(&flags.batchRecords, "batch-records", 1000, "most records in one request")
	f.IntVar(&flags.batchBytes, "batch-bytes", 1<<20, "most bytes in one request, unless one record is larger")
	f.IntVar(&flags.maxLineBytes, "max-line-bytes", 8<<20, "longest line to accept")
	f.StringVar(&flags.producerID, "producer-id", "", "number the records of this idempotent producer; needs --partition")
	f.Int64Var(&flags.firstSequence, "first-sequence", 0, "sequence of the first record of --producer-id")
	flags.binary.register(command, "send records")
	output := registerChoice(command, "output", "o", "what to show: a summary on standard error, or the place of each record as JSON lines", "text", "json")
	command.MarkFlagsMutuallyExclusive("key", "key-separator")
	command.RunE = func(command *cobra.Command, args []string) error {
		return runProduce(command, flags, args[0], args[1:], output.value == "json")
	}
	return command
}

func (f *produceFlags) validate(values []string) error {
	switch {
	case len(values) > 0 && f.file != "":
		return usagef("give values or --file, not both")
	case f.batchRecords < 1:
		return usagef("--batch-records %d: must be 1 or more", f.batchRecords)
	case f.batchBytes < 1:
		return usagef("--batch-bytes %d: must be 1 or more", f.batchBytes)
	case f.maxLineBytes < 1:
		return usagef("--max-line-bytes %d: must be 1 or more", f.maxLineBytes)
	case f.firstSequence < 0:
		return usagef("--first-sequence %d: must be 0 or more", f.firstSequence)
	}
	return f.binary.validate()
}

func runProduce(command *cobra.Command, flags *produceFlags, topic string, values []string, results bool) error {
	if err := flags.validate(values); err != nil {
		return err
	}
	var sequences *sequencer
	if changed := command.Flags().Changed; changed("producer-id") {
		if !changed("partition") {
			return usagef("--producer-id needs --partition: each partition has a sequence of its own")
		}
		sequences = &sequencer{producer: flags.producerID, next: flags.firstSequence, patience: flags.timeout}
		flags.batchRecords = min(flags.batchRecords, flags.mostSequenced())
	} else if changed("first-sequence") {
		return usagef("--first-sequence needs --producer-id")
	}
	shape := recordShape{keySeparator: []byte(flags.keySeparator)}
	if command.Flags().Changed("key") {
		shape.key = []byte(flags.key)
		shape.keyed = true
	}
	if command.Flags().Changed("partition") {
		shape.partition = &flags.partition
	}

	var in io.Reader
	bar := noProgress
	switch {
	case len(values) > 0:
		in = strings.NewReader("")
	case flags.file != "":
		file, err := os.Open(flags.file)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
		bar = newProgress(command.ErrOrStderr(), sizeOf(file))
	default:
		in = command.InOrStdin()
		if !isTerminal(in) {
			bar = newProgress(command.ErrOrStderr(), -1)
		}
	}

	run := &production{
		topic:   topic,
		bar:     bar,
		last:    map[int32]int64{},
		started: time.Now(),
	}
	if results {
		run.results = newLineEncoder(command.OutOrStdout())
	}
	var err error
	if run.out, err = flags.outlet(command.Context(), topic, sequences, run.placed); err != nil {
		return err
	}
	if len(values) > 0 {
		err = run.sendValues(command.Context(), values, shape, flags)
	} else {
		err = run.sendLines(command.Context(), in, shape, flags)
	}
	if drained := run.out.drain(); drained != nil && (err == nil || errors.Is(err, errStopped)) {
		err = drained
	}
	bar.finish()
	if err != nil {
		if run.records > 0 {
			return fmt.Errorf("%w (on disk: %s)", err, count(run.records, "record"))
		}
		return err
	}
	if !results {
		fmt.Fprintln(command.ErrOrStderr(), run.summary())
	}
	return nil
}

// outlet connects to the server, over one protocol or the other.
func (f *produceFlags) outlet(ctx context.Context, topic string, numbers *sequencer, done onDisk) (outlet, error) {
	if f.binary.address == "" {
		server, err := f.dial()
		if err != nil {
			return nil, err
		}
		return &unary{server: server, topic: topic, numbers: numbers, done: done}, nil
	}
	if f.timeout <= 0 {
		return nil, usagef("--timeout %v: must be positive", f.timeout)
	}
	unanswered := unansweredBatches
	if numbers != nil {
		unanswered = max(1, knownSequences/f.batchRecords)
	}
	client, err := f.binary.client(&f.remoteFlags, binary.WithInFlight(unanswered))
	if err != nil {
		return nil, err
	}
	return newPipeline(ctx, client, topic, numbers, done), nil
}

// mostSequenced is how many records of a producer go into a batch. All that is not
// answered may have to be sent again, and only so many are known then.
func (f *produceFlags) mostSequenced() int {
	if f.binary.address == "" {
		return knownSequences
	}
	return knownSequences / 8
}

// recordShape says how a line becomes a record.
type recordShape struct {
	keySeparator []byte
	key          []byte
	keyed        bool
	partition    *int32
}

func (s recordShape) record(line []byte) (*logv1.ProduceRecord, error) {
	record := &logv1.ProduceRecord{Value: line, Partition: s.partition}
	switch {
	case len(s.keySeparator) > 0:
		key, value, found := bytes.Cut(line, s.keySeparator)
		if !found {
			return nil, fmt.Errorf("no %q that ends a key", s.keySeparator)
		}
		record.Key, record.Value = nonNil(key), value
	case s.keyed:
		record.Key = nonNil(s.key)
	}
	return record, nil
}

// nonNil keeps an empty key from being no key.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// production is one run of the command.
type production struct {
	out     outlet
	topic   string
	bar     progress
	results *lineEncoder
	started time.Time

	// What is on disk. It is the outlet's until it is drained.
	records int
	last    map[int32]int64
}

func (p *production) sendValues(ctx context.Context, values []string, shape recordShape, flags *produceFlags) error {
	builder := newBatchBuilder(flags.batchRecords, flags.batchBytes)
	for i, value := range values {
		record, err := shape.record([]byte(value))
		if err != nil {
			return fmt.Errorf("value %d: %w", i+1, err)
		}
		if !builder.fits(record) {
			if err := p.send(ctx, builder.take()); err != nil {
				return err
			}
		}
		builder.add(record, len(value))
	}
	return p.send(ctx, builder.take())
}

func (p *production) sendLines(ctx context.Context, in io.Reader, shape recordShape, flags *produceFlags) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader := &lineReader{
		in:           in,
		shape:        shape,
		builder:      newBatchBuilder(flags.batchRecords, flags.batchBytes),
		maxLineBytes: flags.maxLineBytes,
		batches:      make(chan batch),
	}
	// A read of standard input cannot be ended from outside. When the command is
	// interrupted this goroutine is left to the end of the process.
	go reader.run(ctx)
	for {
		select {
		case next, more := <-reader.batches:
			if !more {
				return reader.err
			}
			if err := p.send(ctx, next); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *production) send(ctx context.Context, b batch) error {
	if len(b.records) == 0 {
		return nil
	}
	return p.out.send(ctx, b)
}

// placed takes note of a batch that is on disk.
func (p *production) placed(b batch, placed []producedView) error {
	p.records += len(b.records)
	for _, at := range placed {
		p.last[at.Partition] = max(p.last[at.Partition], at.Offset)
		if p.results == nil {
			continue
		}
		if err := p.results.encode(at); err != nil {
			return err
		}
	}
	p.bar.add(b.inputBytes)
	if p.results != nil {
		return p.results.flush()
	}
	return nil
}

type producedView struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
	Duplicate bool  `json:"duplicate,omitempty"`
}

// summary tells how much was written and, while they are few, where it ends.
func (p *production) summary() string {
	text := fmt.Sprintf("produced %s to %s in %.2f s", count(p.records, "record"), p.topic, time.Since(p.started).Seconds())
	if len(p.last) == 0 || len(p.last) > 8 {
		return text
	}
	places := make([]string, 0, len(p.last))
	for _, partition := range slices.Sorted(maps.Keys(p.last)) {
		places = append(places, fmt.Sprintf("%d:%d", partition, p.last[partition]))
	}
	return text + ", last offsets by partition " + strings.Join(places, " ")
}
