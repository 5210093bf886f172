package replica

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Message is a Raft message between two replicas of a partition, with the
// batches that its entries stand for.
type Message struct {
	Raft *raftpb.Message
	// Payloads has one element for each entry of Raft: the whole batch, or nil
	// for an entry that is no batch.
	Payloads [][]byte
}

// isBatch tells whether an entry stands for a batch.
func isBatch(entry *raftpb.Entry) bool {
	data := entry.GetData()
	return entry.GetType() == raftpb.EntryNormal && len(data) == recordbatch.HeaderSize && data[0] == 0
}

// batchEnd returns the offset after the batch that a header describes.
func batchEnd(header []byte) int64 {
	return int64(binary.BigEndian.Uint64(header)) + int64(binary.BigEndian.Uint32(header[23:])) + 1
}

// hasProducer tells whether a header names a producer.
func hasProducer(header []byte) bool { return header[43]&0x80 == 0 }

// batchRecords returns the number of records that a header tells.
func batchRecords(header []byte) int { return int(binary.BigEndian.Uint32(header[57:])) }

// validate checks what a message from another node claims, before Raft sees it.
func (m Message) validate() error {
	if m.Raft == nil {
		return fmt.Errorf("message without its Raft part")
	}
	if term := m.Raft.GetTerm(); term > math.MaxInt32 {
		return fmt.Errorf("message of term %d: %w", term, ErrTermTooLarge)
	}
	entries := m.Raft.GetEntries()
	if len(m.Payloads) != len(entries) {
		return fmt.Errorf("message with %d entries and %d payloads", len(entries), len(m.Payloads))
	}
	for i, entry := range entries {
		payload := m.Payloads[i]
		if !isBatch(entry) {
			if payload != nil {
				return fmt.Errorf("entry %d has a payload but is no batch", entry.GetIndex())
			}
			continue
		}
		if len(payload) < recordbatch.HeaderSize || string(payload[:recordbatch.HeaderSize]) != string(entry.GetData()) {
			return fmt.Errorf("payload of entry %d does not begin with its header", entry.GetIndex())
		}
		if err := recordbatch.CheckCRC(payload); err != nil {
			return fmt.Errorf("payload of entry %d: %w", entry.GetIndex(), err)
		}
	}
	return nil
}

// beforeSync tells whether a message may leave before the entries and the hard
// state of its Ready are durable: all but the answers that vouch for them
// (raft's thesis, 10.2.1).
func beforeSync(m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgAppResp, raftpb.MsgVoteResp, raftpb.MsgPreVoteResp:
		return false
	default:
		return true
	}
}
