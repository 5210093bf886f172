package clustertest

import (
	"context"
	"sync"
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Storage keeps the batches of one node in memory. Every partition is there as
// soon as it is asked for.
type Storage struct {
	storagev1.UnimplementedStorageServiceServer
	node string

	mu struct {
		sync.Mutex
		partitions map[partitionKey]*partition
		// What the next appends and fetches to a partition number get instead.
		refuse map[int32][]*storagev1.PartitionError
		// Likewise the next checks of a producer's records.
		refusePrepare map[int32][]*storagev1.PartitionError
		prepares      int
		// What the next calls get instead, before or after they are served.
		before, after []error
		appends       []*storagev1.AppendRequest
		passes        []storagev1.Pass
		// What is in cold storage by partition number.
		cold    map[int32]*storagev1.ListColdSegmentsResponse
		fetches []*storagev1.FetchRequest
		// Closed, and replaced, with each append.
		appended chan struct{}
		discard  bool
		// Why appends are refused, in descriptions; nil where they are not.
		full *storagev1.PartitionError
	}
}

type partitionKey struct {
	topic     string
	partition int32
}

type partition struct {
	batches [][]byte
	start   int64
	end     int64
	// Where the records of producers are: by producer id without sequence, by
	// sequence. What is remembered is everything.
	sequenced map[int64]map[int64]int64
}

func newStorage(node string) *Storage {
	s := &Storage{node: node}
	s.mu.partitions = make(map[partitionKey]*partition)
	s.mu.refuse = make(map[int32][]*storagev1.PartitionError)
	s.mu.refusePrepare = make(map[int32][]*storagev1.PartitionError)
	s.mu.appended = make(chan struct{})
	return s
}

// Refuse makes the next appends to and fetches of a partition number fail, one
// error each.
func (s *Storage) Refuse(partition int32, errors ...*storagev1.PartitionError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.refuse[partition] = append(s.mu.refuse[partition], errors...)
}

// SetFull makes every partition say that it is read and has no room for appends.
func (s *Storage) SetFull() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.full = &storagev1.PartitionError{
		Code: storagev1.ErrorCode_ERROR_CODE_NO_SPACE, Message: "no space left on the disk of node " + s.node,
	}
}

// FailBefore makes the next appends fail without effect.
func (s *Storage) FailBefore(failures ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.before = append(s.mu.before, failures...)
}

// FailAfter makes the next appends fail although they have had their effect.
func (s *Storage) FailAfter(failures ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.after = append(s.mu.after, failures...)
}

// Appends returns the calls of Append so far.
func (s *Storage) Appends() []*storagev1.AppendRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*storagev1.AppendRequest(nil), s.mu.appends...)
}

// Fetches returns the calls of Fetch so far.
func (s *Storage) Fetches() []*storagev1.FetchRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*storagev1.FetchRequest(nil), s.mu.fetches...)
}

// Write puts a batch into a partition as it is, with the next offset; gap leaves
// so many offsets out before it.
func (s *Storage) Write(topic []byte, number int32, batch []byte, gap int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitionLocked(topic, number)
	p.end += gap
	p.add(batch)
	s.wakeLocked()
}

// Cut moves the start of a partition.
func (s *Storage) Cut(topic []byte, number int32, start int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitionLocked(topic, number).start = start
}

// Discard forgets what is appended from now on, but for its offsets. It is for
// benchmarks.
func (s *Storage) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.discard = true
}

// Passes returns the passes that were run.
func (s *Storage) Passes() []storagev1.Pass {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]storagev1.Pass(nil), s.mu.passes...)
}

// RunPass notes the pass.
func (s *Storage) RunPass(_ context.Context, req *storagev1.RunPassRequest) (*storagev1.RunPassResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.before) > 0 {
		err := s.mu.before[0]
		s.mu.before = s.mu.before[1:]
		return nil, err
	}
	s.mu.passes = append(s.mu.passes, req.GetPass())
	resp := &storagev1.RunPassResponse{}
	for number, refusals := range s.mu.refuse {
		if len(refusals) > 0 {
			resp.Failures = append(resp.Failures, &storagev1.RunPassResponse_PartitionFailure{
				Partition: &storagev1.Partition{TopicId: make([]byte, 16), Partition: number}, Error: refusals[0],
			})
		}
	}
	return resp, nil
}

func (s *Storage) wakeLocked() {
	close(s.mu.appended)
	s.mu.appended = make(chan struct{})
}

func (s *Storage) partitionLocked(topic []byte, number int32) *partition {
	key := partitionKey{string(topic), number}
	p := s.mu.partitions[key]
	if p == nil {
		p = &partition{}
		s.mu.partitions[key] = p
	}
	return p
}

// add takes a copy of a batch and stamps it.
func (p *partition) add(batch []byte) {
	batch = append([]byte(nil), batch...)
	recordbatch.Stamp(batch, p.end, 1)
	header, err := recordbatch.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	p.batches = append(p.batches, batch)
	p.note(header)
	p.end = header.NextOffset()
}

func (s *Storage) refusalLocked(number int32) *storagev1.PartitionError {
	queue := s.mu.refuse[number]
	if len(queue) == 0 {
		return nil
	}
	s.mu.refuse[number] = queue[1:]
	return queue[0]
}

// Append stamps and keeps batches.
func (s *Storage) Append(_ context.Context, req *storagev1.AppendRequest) (*storagev1.AppendResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.discard {
		return s.discardLocked(req)
	}
	s.mu.appends = append(s.mu.appends, req)
	if len(s.mu.before) > 0 {
		err := s.mu.before[0]
		s.mu.before = s.mu.before[1:]
		return nil, err
	}
	resp := &storagev1.AppendResponse{}
	for _, a := range req.GetAppends() {
		resp.Appended = append(resp.Appended, s.appendLocked(a))
	}
	if len(s.mu.after) > 0 {
		err := s.mu.after[0]
		s.mu.after = s.mu.after[1:]
		return nil, err
	}
	s.wakeLocked()
	return resp, nil
}

func (s *Storage) discardLocked(req *storagev1.AppendRequest) (*storagev1.AppendResponse, error) {
	resp := &storagev1.AppendResponse{}
	for _, a := range req.GetAppends() {
		header, err := recordbatch.ParseHeader(a.GetBatches())
		if err != nil {
			return nil, err
		}
		p := s.partitionLocked(a.GetPartition().GetTopicId(), a.GetPartition().GetPartition())
		resp.Appended = append(resp.Appended, &storagev1.AppendResponse_PartitionAppended{BaseOffset: p.end})
		p.end += int64(header.Count)
	}
	return resp, nil
}

func (s *Storage) appendLocked(a *storagev1.AppendRequest_PartitionAppend) *storagev1.AppendResponse_PartitionAppended {
	fail := func(code storagev1.ErrorCode, message string) *storagev1.AppendResponse_PartitionAppended {
		return &storagev1.AppendResponse_PartitionAppended{Error: &storagev1.PartitionError{Code: code, Message: message}}
	}
	if refusal := s.refusalLocked(a.GetPartition().GetPartition()); refusal != nil {
		return &storagev1.AppendResponse_PartitionAppended{Error: refusal}
	}
	p := s.partitionLocked(a.GetPartition().GetTopicId(), a.GetPartition().GetPartition())
	base := p.end
	for rest := a.GetBatches(); len(rest) > 0; {
		batch, after, err := recordbatch.Next(rest)
		if err == nil {
			err = recordbatch.CheckCRC(batch)
		}
		if err != nil {
			return fail(storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD, err.Error())
		}
		p.add(batch)
		rest = after
	}
	return &storagev1.AppendResponse_PartitionAppended{BaseOffset: base, LogAppendTimeMs: -1, LogStartOffset: p.start}
}

// Fetch returns whole batches, and waits for a first one when it is asked to.
func (s *Storage) Fetch(ctx context.Context, req *storagev1.FetchRequest) (*storagev1.FetchResponse, error) {
	s.mu.Lock()
	if !s.mu.discard {
		s.mu.fetches = append(s.mu.fetches, req)
	}
	s.mu.Unlock()
	deadline := time.After(time.Duration(req.GetMaxWaitMs()) * time.Millisecond)
	for {
		s.mu.Lock()
		resp, some := &storagev1.FetchResponse{}, false
		for _, f := range req.GetFetches() {
			got := s.fetchLocked(f)
			resp.Fetched = append(resp.Fetched, got)
			some = some || got.GetError() != nil || len(got.GetBatches()) > 0
		}
		appended := s.mu.appended
		s.mu.Unlock()
		if some || req.GetMaxWaitMs() == 0 {
			return resp, nil
		}
		select {
		case <-appended:
		case <-deadline:
			return resp, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Storage) fetchLocked(f *storagev1.FetchRequest_PartitionFetch) *storagev1.FetchResponse_PartitionFetched {
	if refusal := s.refusalLocked(f.GetPartition().GetPartition()); refusal != nil {
		return &storagev1.FetchResponse_PartitionFetched{Error: refusal}
	}
	p := s.partitionLocked(f.GetPartition().GetTopicId(), f.GetPartition().GetPartition())
	offset := min(max(f.GetOffset(), p.start), p.end)
	got := &storagev1.FetchResponse_PartitionFetched{
		HighWatermark: p.end, LastStableOffset: p.end, LogStartOffset: p.start, LogEndOffset: p.end,
		Offset: offset, NextOffset: offset,
	}
	for _, batch := range p.batches {
		header, err := recordbatch.ParseHeader(batch)
		if err != nil {
			panic(err)
		}
		if header.NextOffset() <= offset {
			continue
		}
		if len(got.Batches) > 0 && len(got.Batches)+len(batch) > int(f.GetMaxBytes()) {
			break
		}
		got.Batches = append(got.Batches, batch...)
		got.NextOffset = header.NextOffset()
	}
	return got
}

// Describe tells about partitions; of all that were ever asked for when none is
// named.
func (s *Storage) Describe(_ context.Context, req *storagev1.DescribeRequest) (*storagev1.DescribeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := req.GetPartitions()
	if len(wanted) == 0 {
		for key := range s.mu.partitions {
			wanted = append(wanted, &storagev1.Partition{TopicId: []byte(key.topic), Partition: key.partition})
		}
	}
	resp := &storagev1.DescribeResponse{}
	for _, w := range wanted {
		if refusal := s.refusalLocked(w.GetPartition()); refusal != nil {
			resp.Descriptions = append(resp.Descriptions, &storagev1.DescribeResponse_PartitionDescription{
				Partition: w, Role: "damaged", Error: refusal,
			})
			continue
		}
		p := s.partitionLocked(w.GetTopicId(), w.GetPartition())
		size := int64(0)
		for _, batch := range p.batches {
			size += int64(len(batch))
		}
		resp.Descriptions = append(resp.Descriptions, &storagev1.DescribeResponse_PartitionDescription{
			RefusesAppends: s.mu.full, Partition: w, LogStartOffset: p.start, HighWatermark: p.end, LastStableOffset: p.end, LogEndOffset: p.end,
			SegmentCount: 1, SizeBytes: size, Role: "leader", Term: 1,
			Leader: &storagev1.LeaderHint{Node: s.node, Epoch: 1},
		})
	}
	return resp, nil
}
