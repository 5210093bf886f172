package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

const (
	// How many partitions are read at once when their ends are known.
	consumeParallel = 8
	// How long a fetch waits at the server for a first record when following.
	followWait = 10 * time.Second
	// Waits between tries while a server that is followed is away.
	followRetryMin = 100 * time.Millisecond
	followRetryMax = 5 * time.Second
)

type consumeFlags struct {
	remoteFlags

	partitions   []int32
	from         string
	follow       bool
	max          int64
	group        string
	keySeparator string
	fetchRecords int32

	binary binaryFlags
}

func newConsume() *cobra.Command {
	flags := &consumeFlags{}
	command := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records of a topic",
		Long: "Reads what a topic's partitions hold when the command starts, or with\n" +
			"--follow goes on as records come. Records of a partition come in the order of\n" +
			"their offsets; partitions are mixed.\n\n" +
			"With --group it starts where the group has committed, and commits what it has\n" +
			"written out.\n\n" +
			"With --binary records come over the binary protocol, which is the fastest way;\n" +
			"all else goes over gRPC at --server as ever.",
		Example: "  sluice consume orders\n" +
			"  sluice consume orders --partition 0 --from 100 --max 10 --output json\n" +
			"  sluice consume orders --follow --from latest\n" +
			"  sluice consume orders --binary 127.0.0.1:9001",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopic(&flags.remoteFlags),
	}
	flags.remoteFlags.register(command)
	f := command.Flags()
	f.Int32SliceVarP(&flags.partitions, "partition", "p", nil, "read only this partition (repeatable)")
	f.StringVar(&flags.from, "from", "earliest", "where to start: earliest, latest or an offset")
	f.BoolVarP(&flags.follow, "follow", "f", false, "go on as records come, until interrupted")
	f.Int64VarP(&flags.max, "max", "n", 0, "end after this many records; 0 is no limit")
	f.StringVarP(&flags.group, "group", "g", "", "start at this group's offsets, and commit")
	f.StringVar(&flags.keySeparator, "key-separator", "", "with text output, write keys too, parted from values by this")
	f.Int32Var(&flags.fetchRecords, "fetch-records", 1000, "most records in one answer")
	flags.binary.register(command, "read records")
	output := registerChoice(command, "output", "o", "values as text, or records as JSON lines with text or base64", "text", "json", "base64")
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := flags.validate(command.Flags().Changed("from"), output.value); err != nil {
			return err
		}
		writer := newRecordWriter(command.OutOrStdout(), output.value, flags.keySeparator)
		return runConsume(command, flags, args[0], writer)
	}
	return command
}

func (f *consumeFlags) validate(fromGiven bool, output string) error {
	switch {
	case f.max < 0:
		return usagef("--max %d: must be 0 or more", f.max)
	case f.fetchRecords < 1:
		return usagef("--fetch-records %d: must be 1 or more", f.fetchRecords)
	case f.from == "latest" && !f.follow:
		return usagef("--from latest reads nothing without --follow")
	case f.group != "" && fromGiven:
		return usagef("--group and --from both say where to start")
	case f.keySeparator != "" && output != "text":
		return usagef("--key-separator is for text output; JSON has keys anyway")
	}
	if _, err := f.startOffset(&logv1.PartitionInfo{}); err != nil {
		return err
	}
	return f.binary.validate()
}

// startOffset is the offset that --from means in a partition.
func (f *consumeFlags) startOffset(partition *logv1.PartitionInfo) (int64, error) {
	switch f.from {
	case "earliest":
		return partition.GetStartOffset(), nil
	case "latest":
		return partition.GetEndOffset(), nil
	}
	offset, err := strconv.ParseInt(f.from, 10, 64)
	if err != nil || offset < 0 {
		return 0, usagef("--from %q: must be earliest, latest or an offset of 0 or more", f.from)
	}
	return offset, nil
}

func runConsume(command *cobra.Command, flags *consumeFlags, topic string, writer *recordWriter) error {
	server, err := flags.dial()
	if err != nil {
		return err
	}
	defer server.close()
	read := fetchOver(server)
	if flags.binary.address != "" {
		client, err := flags.binary.client(&flags.remoteFlags)
		if err != nil {
			return err
		}
		// What it may say of what was under way is nobody's business any more.
		defer func() { _ = client.Close() }()
		read = fetchBinary(client, read)
	}

	run := &consumption{
		server:  server,
		read:    read,
		topic:   topic,
		flags:   flags,
		writer:  writer,
		fetched: make(chan *fetched),
		notice:  func(text string) { fmt.Fprintln(command.ErrOrStderr(), text) },
	}
	cursors, err := run.start(command.Context())
	if err != nil {
		return err
	}
	err = run.run(command.Context(), cursors)
	if flags.follow && command.Context().Err() != nil {
		// Being interrupted is how following ends.
		return nil
	}
	return err
}

// consumption is one run of the command. One goroutine a partition fetches,
// and the command's own writes and commits, so a commit never runs ahead of
// what was written out.
type consumption struct {
	server  *remote
	read    fetch
	topic   string
	flags   *consumeFlags
	writer  *recordWriter
	fetched chan *fetched
	notice  func(string)
}

// cursor is a place in a partition.
type cursor struct {
	partition int32
	offset    int64
	// Where to stop when not following.
	end int64
}

type fetched struct {
	partition  int32
	records    []*logv1.Record
	nextOffset int64
}

func (c *consumption) start(ctx context.Context) ([]cursor, error) {
	topic, err := call(ctx, c.server, c.server.topics.GetTopic, &logv1.GetTopicRequest{Name: c.topic})
	if err != nil {
		return nil, err
	}
	for _, wanted := range c.flags.partitions {
		if !slices.ContainsFunc(topic.GetPartitions(), func(p *logv1.PartitionInfo) bool { return p.GetId() == wanted }) {
			return nil, fmt.Errorf("%s has no partition %d", c.topic, wanted)
		}
	}
	var committed map[int32]int64
	if c.flags.group != "" {
		offsets, err := call(ctx, c.server, c.server.groups.GetOffsets, &logv1.GetOffsetsRequest{Group: c.flags.group})
		if err != nil {
			return nil, err
		}
		committed = offsets.GetOffsets()[c.topic].GetPartitions()
	}
	var cursors []cursor
	for _, p := range topic.GetPartitions() {
		if len(c.flags.partitions) > 0 && !slices.Contains(c.flags.partitions, p.GetId()) {
			continue
		}
		if state := p.GetState(); state != "" && state != "no_space" {
			// Its numbers are zeros: it would pass for an empty one.
			return nil, fmt.Errorf("partition %d of %s cannot be read: %s", p.GetId(), c.topic, p.GetError())
		}
		offset, found := committed[p.GetId()]
		if !found {
			if offset, err = c.flags.startOffset(p); err != nil {
				return nil, err
			}
		}
		if c.flags.follow || offset < p.GetEndOffset() {
			cursors = append(cursors, cursor{partition: p.GetId(), offset: offset, end: p.GetEndOffset()})
		}
	}
	return cursors, nil
}

func (c *consumption) run(ctx context.Context, cursors []cursor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	readers, readCtx := errgroup.WithContext(ctx)
	if !c.flags.follow {
		readers.SetLimit(consumeParallel)
	}
	// Go blocks at the limit, so it must not run where records are taken.
	var readErr error
	go func() {
		defer close(c.fetched)
		for _, at := range cursors {
			readers.Go(func() error { return c.follow(readCtx, at) })
		}
		readErr = readers.Wait()
	}()

	err := c.write(ctx)
	cancel()
	// Readers that wait to hand something over see the end of the context.
	for range c.fetched {
	}
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return err
	}
	return readErr
}

// errEnough ends the command at --max.
var errEnough = errors.New("as many records as were asked for")

func (c *consumption) write(ctx context.Context) error {
	var written int64
	for batch := range c.fetched {
		if limit := c.flags.max; limit > 0 && written+int64(len(batch.records)) > limit {
			batch.records = batch.records[:limit-written]
			batch.nextOffset = batch.records[len(batch.records)-1].GetOffset() + 1
		}
		if err := c.writer.write(batch.records); err != nil {
			return err
		}
		if c.flags.group != "" {
			_, err := call(ctx, c.server, c.server.groups.CommitOffset, &logv1.CommitOffsetRequest{
				Group: c.flags.group, Topic: c.topic, Partition: &batch.partition, Offset: &batch.nextOffset,
			})
			if err != nil {
				return err
			}
		}
		written += int64(len(batch.records))
		if c.flags.max > 0 && written == c.flags.max {
			return errEnough
		}
	}
	return nil
}

// follow fetches from one place on, to the end or for ever.
func (c *consumption) follow(ctx context.Context, at cursor) error {
	retry := followRetryMin
	for c.flags.follow || at.offset < at.end {
		response, err := c.fetch(ctx, at)
		if err != nil {
			if !c.flags.follow || status.Code(err) != codes.Unavailable {
				return err
			}
			if retry == followRetryMin {
				c.notice(err.Error() + "; trying again")
			}
			if !wait(ctx, retry) {
				return ctx.Err()
			}
			retry = min(2*retry, followRetryMax)
			continue
		}
		retry = followRetryMin
		next := response.GetNextOffset()
		if !c.flags.follow && next <= at.offset {
			// Nothing up to the end can be read, or not yet.
			return nil
		}
		at.offset = next
		if len(response.GetRecords()) == 0 {
			continue
		}
		select {
		case c.fetched <- &fetched{partition: at.partition, records: response.GetRecords(), nextOffset: next}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *consumption) fetch(ctx context.Context, at cursor) (*logv1.ConsumeResponse, error) {
	request := &logv1.ConsumeRequest{
		Topic: c.topic, Partition: &at.partition, Offset: &at.offset, MaxRecords: &c.flags.fetchRecords,
	}
	if c.flags.follow {
		// The server's wait is part of the time that the request may take.
		waitMs := int32(min(followWait, c.flags.timeout/2).Milliseconds())
		request.MaxWaitMs = &waitMs
	}
	return c.read(ctx, request)
}

// wait waits for a duration, and reports whether the context lasted as long.
func wait(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
