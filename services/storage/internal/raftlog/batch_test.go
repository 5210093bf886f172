package raftlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// batch is a stamped batch with one record for each timestamp.
func batch(t testing.TB, base int64, epoch int32, value []byte, timestamps ...int64) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{})
	for _, ts := range timestamps {
		b.Append(ts, nil, value, nil)
	}
	bytes, err := b.Finish()
	require.NoError(t, err)
	recordbatch.Stamp(bytes, base, epoch)
	return bytes
}

// entryOf is the raft entry of a stamped batch.
func entryOf(index, term uint64, batch []byte) *raftpb.Entry {
	return &raftpb.Entry{
		Index: new(index), Term: new(term), Type: raftpb.EntryNormal.Enum(),
		Data: append([]byte(nil), batch[:recordbatch.HeaderSize]...),
	}
}

// other is an entry that is no batch.
func other(index, term uint64, kind raftpb.EntryType, data []byte) *raftpb.Entry {
	return &raftpb.Entry{Index: new(index), Term: new(term), Type: kind.Enum(), Data: data}
}

func one(e *raftpb.Entry) []*raftpb.Entry { return []*raftpb.Entry{e} }

func confState(voters ...uint64) *raftpb.ConfState { return &raftpb.ConfState{Voters: voters} }

// inTerm is the Write that begins a term.
func inTerm(term, index uint64) raftlog.Write {
	return raftlog.Write{
		HardState: &raftpb.HardState{Term: new(term), Vote: new(uint64(1)), Commit: new(uint64(0))},
		Entries:   []*raftpb.Entry{other(index, term, raftpb.EntryNormal, nil)},
		Payloads:  [][]byte{nil},
	}
}
