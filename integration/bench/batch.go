package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// newBatch builds one batch of records of the same size.
func newBatch(b testing.TB, records, size int) []byte {
	builder := recordbatch.NewBuilder(recordbatch.Options{})
	now := time.Now().UnixMilli()
	for range records {
		builder.Append(now, nil, letters(size), nil)
	}
	batch, err := builder.Finish()
	require.NoError(b, err)
	return batch
}

// letters returns random text, which no compression makes much smaller.
func letters(size int) []byte {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	text := make([]byte, size)
	for i := range text {
		text[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return text
}
