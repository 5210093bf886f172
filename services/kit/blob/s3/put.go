package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// Headers of the checksum. Only those that begin so does the client send as they
// are.
const (
	checksumHeader    = "X-Amz-Checksum-Crc32c"
	checksumAlgorithm = "X-Amz-Checksum-Algorithm"
	checksumType      = "X-Amz-Checksum-Type"
	fullObject        = "FULL_OBJECT"
)

const (
	// maxParts is what S3 takes.
	maxParts = 10_000
	// partsAtOnce are sent side by side.
	partsAtOnce = 4
	// readBytes is the buffer for reading what is not sent on.
	readBytes = 1 << 20
	// cleanUpTime is how long a failed upload may take to be taken back.
	cleanUpTime = 10 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode is a checksum as S3 writes it.
func encode(crc32c uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32c))
}

// Put writes an object.
func (s *Store) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	if err := blob.CheckName(name); err != nil {
		return err
	}
	put := s.putWhole
	if size > s.partBytes {
		put = s.putParts
	}
	stored, err := put(ctx, name, src, size, crc32c)
	if err == nil {
		err = s.confirm(ctx, name, size, crc32c, stored)
	}
	if err != nil {
		return s.failed(ctx, "store", name, err)
	}
	return nil
}

// putWhole returns what the server tells of what it stored.
func (s *Store) putWhole(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) (minio.UploadInfo, error) {
	hash := s.newHash()
	if hash != nil || size == 0 {
		// Of nothing nothing would be read but here.
		if err := drain(hash, newBody(ctx, src, 0, size, crc32c)); err != nil {
			return minio.UploadInfo{}, err
		}
	}
	b := newBody(ctx, src, 0, size, crc32c)
	info, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, b, size, "", hexOf(hash), minio.PutObjectOptions{
		UserMetadata:         map[string]string{checksumHeader: encode(crc32c)},
		DisableContentSha256: true,
	})
	if err := b.end(); err != nil {
		return minio.UploadInfo{}, err
	}
	return info, err
}

// newHash returns the hash by which a request signs its payload, or nil: TLS sees to
// that it is not changed.
//
// The client could sign the payload in chunks as it goes, without reading it
// before. But it shares what it does that with among goroutines: when a server
// answers early, one closes what another still uses, and the process ends.
func (s *Store) newHash() hash.Hash {
	if s.secure {
		return nil
	}
	return sha256.New()
}

func hexOf(hash hash.Hash) string {
	if hash == nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// drain reads a body to its end, into a hash unless that is nil.
func drain(hash hash.Hash, b *body) error {
	to := io.Discard
	if hash != nil {
		to = hash
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, b, make([]byte, readBytes))
	if end := b.end(); end != nil {
		return end
	}
	return err
}

func (s *Store) putParts(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) (minio.UploadInfo, error) {
	parts, err := s.divide(ctx, src, size, crc32c)
	if err != nil {
		return minio.UploadInfo{}, err
	}
	var id string
	err = s.retry.Do(ctx, 0, func(ctx context.Context) (err error) {
		id, err = s.client.NewMultipartUpload(ctx, s.bucket, s.prefix+name, minio.PutObjectOptions{
			UserMetadata: map[string]string{checksumAlgorithm: "CRC32C", checksumType: fullObject},
		})
		return classify(err)
	})
	if err != nil {
		return minio.UploadInfo{}, err
	}
	stored, err := s.sendParts(ctx, name, id, src, parts, crc32c)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		// What cannot be taken back now is left to Tidy.
		_ = s.client.AbortMultipartUpload(ctx, s.bucket, s.prefix+name, id)
		return minio.UploadInfo{}, err
	}
	return stored, nil
}

// part is a part of a multipart upload.
type part struct {
	number    int // from 1
	off, size int64
	crc32c    uint32
	sha256    string // in hexadecimal; empty if it is not needed
}

// divide reads the source to see that it is what it should be before anything is
// sent, and to know the checksums of its parts: sent ahead of the bytes, they are
// understood by more servers than behind them.
func (s *Store) divide(ctx context.Context, src io.ReaderAt, size int64, crc32c uint32) ([]part, error) {
	partBytes := max(s.partBytes, (size+maxParts-1)/maxParts)
	var parts []part
	buffer := make([]byte, readBytes)
	sum := uint32(0)
	for off := int64(0); off < size; off += partBytes {
		p := part{number: len(parts) + 1, off: off, size: min(partBytes, size-off)}
		hash := s.newHash()
		for at := off; at < off+p.size; {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			chunk := buffer[:min(int64(len(buffer)), off+p.size-at)]
			n, err := src.ReadAt(chunk, at)
			if n < len(chunk) {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return nil, &sourceError{fmt.Errorf("read what is to be stored, at %d of %d: %w", at+int64(n), size, err)}
			}
			p.crc32c = crc32.Update(p.crc32c, castagnoli, chunk)
			sum = crc32.Update(sum, castagnoli, chunk)
			if hash != nil {
				hash.Write(chunk)
			}
			at += int64(n)
		}
		p.sha256 = hexOf(hash)
		parts = append(parts, p)
	}
	if sum != crc32c {
		return nil, fmt.Errorf("%w: it is %08x, expected %08x", blob.ErrChecksum, sum, crc32c)
	}
	return parts, nil
}

func (s *Store) sendParts(ctx context.Context, name, id string, src io.ReaderAt, parts []part, crc32c uint32) (minio.UploadInfo, error) {
	sent := make([]minio.CompletePart, len(parts))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	for i, p := range parts {
		group.Go(func() error {
			if err := within.Err(); err != nil {
				return err
			}
			err := confine.Catch(func() error {
				return s.retry.Do(within, p.size, func(ctx context.Context) (err error) {
					sent[i], err = s.sendPart(ctx, name, id, src, p)
					return classify(err)
				})
			})
			if err != nil {
				return fmt.Errorf("part %d of %d: %w", p.number, len(parts), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return minio.UploadInfo{}, err
	}
	var info minio.UploadInfo
	err := s.retry.Do(ctx, 0, func(ctx context.Context) (err error) {
		info, err = s.client.CompleteMultipartUpload(ctx, s.bucket, s.prefix+name, id, sent, minio.PutObjectOptions{
			UserMetadata: map[string]string{checksumHeader: encode(crc32c), checksumType: fullObject},
		})
		return classify(err)
	})
	return info, err
}

func (s *Store) sendPart(ctx context.Context, name, id string, src io.ReaderAt, p part) (minio.CompletePart, error) {
	b := newBody(ctx, src, p.off, p.size, p.crc32c)
	header := http.Header{}
	header.Set(checksumHeader, encode(p.crc32c))
	done, err := s.client.PutObjectPart(ctx, s.bucket, s.prefix+name, id, p.number, b, p.size, minio.PutObjectPartOptions{
		CustomHeader: header, Sha256Hex: p.sha256, DisableContentSha256: true,
	})
	if err := b.end(); err != nil {
		return minio.CompletePart{}, err
	}
	return minio.CompletePart{PartNumber: p.number, ETag: done.ETag, ChecksumCRC32C: done.ChecksumCRC32C}, err
}

// confirm sees to it that what was stored is what was sent. A server that has not
// told (or told the checksum of the parts' checksums) is asked for the object.
func (s *Store) confirm(ctx context.Context, name string, size int64, crc32c uint32, info minio.UploadInfo) error {
	want, stored := encode(crc32c), info.ChecksumCRC32C
	if stored == want {
		return nil
	}
	if len(stored) != len(want) {
		sum, err := s.sumOf(ctx, name, info.ETag, size)
		if replaced(err) {
			// What took its place has a Put of its own that answers for it.
			return nil
		}
		if err != nil {
			return fmt.Errorf("read back what was stored: %w", err)
		}
		if stored = encode(sum); stored == want {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	return errors.Join(
		&failure{text: fmt.Sprintf("the bytes were spoilt on their way: the server has some with the checksum %s, expected %s", stored, want), temporary: true},
		s.Delete(ctx, name))
}

func (s *Store) sumOf(ctx context.Context, name, etag string, size int64) (uint32, error) {
	sum := uint32(0)
	buffer := make([]byte, readBytes)
	for at := int64(0); at < size; {
		n, err := s.readAt(ctx, name, etag, buffer, at)
		sum = crc32.Update(sum, castagnoli, buffer[:n])
		at += int64(n)
		if err == nil && n < len(buffer) && at != size {
			err = fmt.Errorf("it has %d bytes, expected %d", at, size)
		}
		if err != nil {
			return 0, err
		}
	}
	return sum, nil
}
