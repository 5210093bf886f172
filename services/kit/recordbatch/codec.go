package recordbatch

import "fmt"

// Codec is how the records of a batch are compressed. On disk and on the wire;
// the numbers must not change.
type Codec int8

// The codecs of Kafka.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

var codecNames = [...]string{None: "uncompressed", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}

// Known tells whether the codec can be read and written.
func (c Codec) Known() bool { return c >= 0 && int(c) < len(codecNames) }

// String is the codec's name in the topic config compression.type.
func (c Codec) String() string {
	if !c.Known() {
		return fmt.Sprintf("codec %d", int8(c))
	}
	return codecNames[c]
}

// ParseCodec reads a name as String gives it, and "none", which is what
// producers call no compression.
func ParseCodec(name string) (Codec, error) {
	if name == "none" {
		return None, nil
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return 0, fmt.Errorf("%w %q, expected one of %q", ErrCodec, name, codecNames)
}
