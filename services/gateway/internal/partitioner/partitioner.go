// Package partitioner chooses the partition of a record whose sender named none.
//
// A key goes to hash(key) modulo the number of partitions, so that all records
// of a key stand in one partition, in order. Two hashes are known; which one a
// topic uses is part of its config and must not change while it holds keys:
//
//	fnv1a    32-bit FNV-1a, the default: what the HTTP and binary API document
//	murmur2  what Java's Kafka client does, for topics that both write to
//
// Neither result may ever change: a key would move to another partition.
package partitioner

// A Hash is a way from a key to a number.
type Hash uint8

const (
	// FNV1a is 32-bit FNV-1a.
	FNV1a Hash = iota
	// Murmur2 is Kafka's 32-bit murmur2, without the sign.
	Murmur2
)

// Named returns the hash of a name in a topic's config. An unknown name, which a
// newer version may have set, is FNV1a.
func Named(name string) Hash {
	if name == "murmur2" {
		return Murmur2
	}
	return FNV1a
}

// Partition returns the partition of a key among n > 0 partitions.
func (h Hash) Partition(key []byte, n int) int32 {
	sum := fnv1a
	if h == Murmur2 {
		sum = positiveMurmur2
	}
	return int32(sum(key) % uint32(n))
}

// fnv1a is hash/fnv's New32a without the allocation.
func fnv1a(key []byte) uint32 {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for _, c := range key {
		h = (h ^ uint32(c)) * prime
	}
	return h
}

// positiveMurmur2 takes the sign off as Java's client does.
func positiveMurmur2(key []byte) uint32 { return murmur2(key) & 0x7fffffff }

// murmur2 is the variant of org.apache.kafka.common.utils.Utils.
func murmur2(key []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
