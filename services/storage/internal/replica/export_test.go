package replica

// TransferLeader has raft hand the leadership to another replica: until it has
// gone, or the transfer is given up, raft drops proposals.
func (r *Replica) TransferLeader(to uint64) { r.raw.TransferLeader(to) }
