package s3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7"
)

// Tidy takes back multipart uploads below the prefix that began before a moment:
// those of processes that died. It returns how many.
func (s *Store) Tidy(ctx context.Context, before time.Time) (int, error) {
	gone := 0
	var failed error
	for upload := range s.uploads(ctx) {
		if upload.Err != nil {
			return gone, errors.Join(failed, s.failed(ctx, "list uploads of", "", upload.Err))
		}
		if !upload.Initiated.Before(before) {
			continue
		}
		err := s.client.AbortMultipartUpload(ctx, s.bucket, upload.Key, upload.UploadID)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("take back the upload of %s: %w", upload.Key, classify(err)))
			continue
		}
		gone++
	}
	return gone, failed
}

func (s *Store) uploads(ctx context.Context) <-chan minio.ObjectMultipartInfo {
	return s.client.ListIncompleteUploads(ctx, s.bucket, s.prefix, true)
}

// takeBack aborts all multipart uploads of an object.
func (s *Store) takeBack(ctx context.Context, name string) error {
	key := s.prefix + name
	found, err := s.client.ListMultipartUploads(ctx, s.bucket, key, "", "", "", 0)
	if err != nil {
		return err
	}
	for _, upload := range found.Uploads {
		// Those of longer names are among them.
		if upload.Key != key {
			continue
		}
		if err := s.client.AbortMultipartUpload(ctx, s.bucket, key, upload.UploadID); err != nil && minio.ToErrorResponse(err).Code != "NoSuchUpload" {
			return err
		}
	}
	return nil
}
