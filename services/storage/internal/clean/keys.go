package clean

import (
	"crypto/sha256"
	"encoding/binary"
)

// SlotBytes is what one key takes of the memory for keys.
const SlotBytes = 24

// leastKeys is room that is there however little is asked for, so that each
// round of cleaning gets somewhere.
const leastKeys = 64

// Keys are the newest offsets of keys, in memory of a fixed size. Of a key it has
// 128 bits of a hash that nobody can aim at: a key that was taken for another
// would cost a record.
type Keys struct {
	slots []slot
	used  int
	most  int // of the slots, so that looking for one ends soon
}

// slot is free while its offset is 0: offsets are kept one higher.
type slot struct {
	hash   [2]uint64
	offset int64
}

// NewKeys makes room for so many keys, or as many as fit into so many bytes.
func NewKeys(keys, bytes int64) *Keys {
	slots := max(min(keys+keys/3, bytes/SlotBytes), leastKeys+leastKeys/3)
	return &Keys{slots: make([]slot, slots), most: int(slots - slots/4)}
}

func hashOf(key []byte) [2]uint64 {
	sum := sha256.Sum256(key)
	return [2]uint64{binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])}
}

// find returns the slot of a key, or the free one where it belongs.
func (k *Keys) find(hash [2]uint64) *slot {
	for i := hash[0] % uint64(len(k.slots)); ; i++ {
		if i == uint64(len(k.slots)) {
			i = 0
		}
		if s := &k.slots[i]; s.offset == 0 || s.hash == hash {
			return s
		}
	}
}

// put notes that a key has a record at an offset. It returns false if there is no
// room for another key.
func (k *Keys) put(key []byte, offset int64) bool {
	hash := hashOf(key)
	s := k.find(hash)
	if s.offset == 0 {
		if k.used == k.most {
			return false
		}
		k.used++
		s.hash = hash
	}
	s.offset = max(s.offset, offset+1)
	return true
}

// newest is the highest offset of a key, -1 if it has none.
func (k *Keys) newest(key []byte) int64 {
	if k.used == 0 {
		return -1
	}
	return k.find(hashOf(key)).offset - 1
}
