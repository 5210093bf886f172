package replica

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// commandTag is the first byte of a Raft entry that carries a command. It is on
// disk and on the wire and must not change. A batch header never begins with it:
// the first byte of a base offset is zero below 2^56.
const commandTag = 0xC1

// State is what follows from the log by applying it, the same on every replica
// at the same index. The producers follow from it, too, and stand apart: a View
// has no copy of them.
type State struct {
	// StartOffset is the first offset that readers see.
	StartOffset int64
	// OwnerEpoch is the fence: appends of an older owner are refused.
	OwnerEpoch int64
	// Cold is what there is in cold storage; nil is nothing.
	Cold *tier.State
}

// apply applies a command of an entry's term. No entry is applied twice: a state
// is kept with the index that it is of.
func (s *State) apply(command *persistv1.Command, term uint64) error {
	switch kind := command.GetKind().(type) {
	case *persistv1.Command_AdvanceStart:
		s.StartOffset = max(s.StartOffset, kind.AdvanceStart.GetOffset())
		s.Cold = s.Cold.Start(s.StartOffset)
	case *persistv1.Command_Fence:
		s.OwnerEpoch = max(s.OwnerEpoch, kind.Fence.GetOwnerEpoch())
	case *persistv1.Command_ColdIntent:
		s.Cold = s.Cold.Intend(kind.ColdIntent, term)
	case *persistv1.Command_ColdAdded:
		s.Cold = s.Cold.Add(kind.ColdAdded.GetSegment(), term, s.StartOffset)
	case *persistv1.Command_ColdRemoved:
		s.Cold = s.Cold.Remove(kind.ColdRemoved)
	default:
		return fmt.Errorf("command of an unknown kind %T: written by a newer version", kind)
	}
	return nil
}

// save encodes the applied state, and the producers with it, for points.
func (r *Replica) save() ([]byte, error) {
	return proto.Marshal(&persistv1.ReplicaState{
		StartOffset: r.state.StartOffset,
		OwnerEpoch:  r.state.OwnerEpoch,
		Producers:   r.ahead.Table.Encode(r.options.Now().UnixMilli()),
		Cold:        r.state.Cold.Encode(),
	})
}

// restore takes over what save encoded, here or on another replica.
func (r *Replica) restore(b []byte) error {
	var message persistv1.ReplicaState
	if err := proto.Unmarshal(b, &message); err != nil {
		return fmt.Errorf("replica state: %w", err)
	}
	table, err := producer.Decode(r.options.Producers, message.GetProducers())
	if err != nil {
		return fmt.Errorf("replica state: %w", err)
	}
	cold, err := tier.Decode(message.GetCold())
	if err != nil {
		return fmt.Errorf("replica state: %w", err)
	}
	r.state = State{StartOffset: message.GetStartOffset(), OwnerEpoch: message.GetOwnerEpoch(), Cold: cold}
	r.ahead = producer.Ahead{Table: table}
	return nil
}

func marshalCommand(command *persistv1.Command) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend([]byte{commandTag}, command)
}

func unmarshalCommand(data []byte) (*persistv1.Command, error) {
	if len(data) == 0 || data[0] != commandTag {
		return nil, fmt.Errorf("entry of %d bytes is neither a batch nor a command", len(data))
	}
	var command persistv1.Command
	if err := proto.Unmarshal(data[1:], &command); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	return &command, nil
}
