package coldstore

import (
	"fmt"
	"io"
	"time"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/dir"
	"github.com/sluiceio/sluice/services/kit/blob/retry"
	"github.com/sluiceio/sluice/services/kit/blob/s3"
	"github.com/sluiceio/sluice/services/kit/vfs"
)

// Cold is a store that was opened.
type Cold struct {
	// Store is what segments are kept in.
	Store blob.Store
	// probe is the store without retries: what is wrong with it is told at once.
	probe blob.Store
	// name is the store in words of the log, without keys.
	name   string
	closer io.Closer
	// tidy takes back what processes left that died; nil if they leave nothing.
	tidy *s3.Store
}

// retries are tries of a request to S3 within about half a minute. Whoever is
// refused for longer comes back with the next pass.
func retries() retry.Policy {
	return retry.Policy{
		Temporary: s3.Temporary,
		Tries:     5,
		Backoff:   backoff.Policy{Initial: 250 * time.Millisecond, Max: 10 * time.Second},
	}
}

// Open opens the store that is named, or returns nil if none is. It reaches for
// nothing: whether the store can be used is what Watch finds out.
func (c *Config) Open() (*Cold, error) {
	place, err := c.place()
	if err != nil {
		return nil, err
	}
	switch {
	case place.folder != "":
		store := dir.New(vfs.OS, place.folder)
		return &Cold{Store: store, probe: store, name: "folder " + place.folder, closer: store}, nil
	case place.bucket.Bucket != "":
		place.bucket.Retry = retries()
		store, err := s3.New(place.bucket)
		if err != nil {
			return nil, fmt.Errorf("--cold-storage: %w", err)
		}
		name := "s3://" + place.bucket.Bucket + "/" + place.bucket.Prefix
		if place.bucket.Endpoint != "" {
			name += " at " + place.bucket.Endpoint
		}
		return &Cold{Store: retry.New(store, retries()), probe: store, name: name, closer: store, tidy: store}, nil
	}
	return nil, nil
}

// Close gives back what the store took.
func (c *Cold) Close() error { return c.closer.Close() }
