// Package s3 keeps objects in a bucket of Amazon S3, or of what speaks its
// protocol.
//
// An object up to the size of a part is one PUT. A larger one is a multipart
// upload, whose parts are read from the source as they are sent, a few at a time:
// memory does not grow with the object. Either way it becomes visible at once, or
// not at all.
//
// Without TLS a request is signed with its payload, which is read once before it is
// sent for that.
//
// The checksum goes with every request, for the server to compare with what it
// received, and the server's answer has the checksum of what it stored. Where a
// server answers without, the object is read back once.
//
// A process that dies in the middle of a multipart upload leaves parts in the
// bucket, which no list shows and which cost. Delete removes those of its object,
// [Store.Tidy] what else is old.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/retry"
)

// Style is how a request names its bucket.
type Style int

const (
	// AutoStyle is what fits the endpoint: by host for Amazon, else by path.
	AutoStyle Style = iota
	// PathStyle is https://endpoint/bucket/object.
	PathStyle
	// HostStyle is https://bucket.endpoint/object.
	HostStyle
)

// Options say where the objects are.
type Options struct {
	Bucket string
	// Prefix stands before every name; empty, or it ends in a slash.
	Prefix string
	// Endpoint is the server's URL, https://host or http://host:port; empty is
	// Amazon's.
	Endpoint string
	// Region is the bucket's. Empty is us-east-1 with an endpoint, and what Amazon
	// says without.
	Region string
	Style  Style
	// Authorities are those that the server's certificate is checked against, and
	// that of the service which gives out keys; nil is the machine's.
	Authorities *x509.CertPool
	// Keys are whose the requests are.
	Keys Keys
	// Retry is about the parts of a multipart upload, each for itself. Its
	// Temporary is set by New.
	Retry retry.Policy
	// PartBytes is the size from which an object is sent in parts, and that of a
	// part; 0 is 16 MiB. S3 takes 5 MiB and more.
	PartBytes int64
}

const (
	defaultRegion    = "us-east-1"
	defaultPartBytes = 16 << 20
	// maxPrefix leaves a name its 512 of the 1024 bytes that S3 takes.
	maxPrefix = 512
)

// Store is a bucket, or the part of it below a prefix.
type Store struct {
	client    minio.Core
	transport *http.Transport
	bucket    string
	prefix    string
	partBytes int64
	retry     retry.Policy
	// secure is that the server speaks TLS.
	secure bool
}

var _ blob.Store = (*Store)(nil)

// New returns a store. It connects to nothing yet.
func New(o Options) (*Store, error) {
	host, secure, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	if o.Prefix != "" {
		folder, slash := strings.CutSuffix(o.Prefix, "/")
		if !slash || len(o.Prefix) > maxPrefix {
			return nil, fmt.Errorf("prefix %q: expected at most %d bytes that end in a slash", o.Prefix, maxPrefix)
		}
		if err := blob.CheckName(folder); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	if o.Region == "" && o.Endpoint != "" {
		o.Region = defaultRegion
	}
	if o.PartBytes == 0 {
		o.PartBytes = defaultPartBytes
	}
	o.Retry.Temporary = Temporary
	transport := newTransport(o.Authorities)
	client, err := minio.NewCore(host, &minio.Options{
		Creds:        o.Keys.credentials(transport),
		Secure:       secure,
		Transport:    transport,
		Region:       o.Region,
		BucketLookup: map[Style]minio.BucketLookupType{AutoStyle: minio.BucketLookupAuto, PathStyle: minio.BucketLookupPath, HostStyle: minio.BucketLookupDNS}[o.Style],
		// Whoever holds the store decides what is tried again.
		MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("S3 endpoint: %w", err)
	}
	return &Store{
		client: *client, transport: transport,
		bucket: o.Bucket, prefix: o.Prefix, partBytes: o.PartBytes, retry: o.Retry, secure: secure,
	}, nil
}

func (o Options) endpoint() (host string, secure bool, err error) {
	if o.Endpoint == "" {
		return "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(o.Endpoint)
	// The error of Parse repeats the URL, which may have a password in it.
	if err != nil || u.User != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", false, fmt.Errorf("endpoint: expected http://host:port or https://host:port, with nothing before or after it")
	}
	return u.Host, u.Scheme == "https", nil
}

func newTransport(authorities *x509.CertPool) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     time.Minute,
		// Ranges and checksums are of the bytes as they are stored.
		DisableCompression: true,
	}
}

// Close closes connections that are idle.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// ReadAt reads from an object.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := blob.CheckName(name); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, fmt.Errorf("read object %s: offset %d, expected 0 or more", name, off)
	}
	n, err := s.readAt(ctx, name, "", p, off)
	switch {
	case errors.Is(err, errPastEnd):
		return 0, endOf(p)
	case err != nil:
		return n, s.failed(ctx, "read", name, err)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// endOf is what a read past an object's end says; one of nothing asks only
// whether the object is there.
func endOf(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return io.EOF
}

// maxObject is more bytes than any object has. It keeps ranges from overflowing.
const maxObject = 1 << 50

// readAt reads from the version of an object that an ETag names; from the current
// one if that is empty.
func (s *Store) readAt(ctx context.Context, name, etag string, p []byte, off int64) (int, error) {
	off = min(off, maxObject)
	var get minio.GetObjectOptions
	if etag != "" {
		if err := get.SetMatchETag(etag); err != nil {
			return 0, err
		}
	}
	// A range has at least a byte.
	if err := get.SetRange(off, off+max(int64(len(p)), 1)-1); err != nil {
		return 0, err
	}
	body, _, header, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, get)
	if err != nil {
		if refusedRange(err) {
			return 0, errPastEnd
		}
		return 0, err
	}
	defer body.Close()
	first, last, size, err := parseContentRange(header.Get("Content-Range"))
	if err != nil {
		return 0, err
	}
	want := min(int64(len(p)), size-off)
	if first != off || last-first+1 < want {
		return 0, &failure{text: fmt.Sprintf("asked for %d bytes from %d on, the server sends %d to %d of %d", len(p), off, first, last, size), temporary: true}
	}
	n, err := io.ReadFull(body, p[:want])
	if err != nil {
		return n, &failure{text: fmt.Sprintf("the connection broke after %d of %d bytes: %v", n, want, err), temporary: true}
	}
	return n, nil
}

// parseContentRange reads "bytes 0-9/443".
func parseContentRange(text string) (first, last, size int64, err error) {
	numbers, found := strings.CutPrefix(text, "bytes ")
	span, of, both := strings.Cut(numbers, "/")
	from, to, dash := strings.Cut(span, "-")
	if found && both && dash {
		first, err = strconv.ParseInt(from, 10, 64)
		if err == nil {
			last, err = strconv.ParseInt(to, 10, 64)
		}
		if err == nil {
			size, err = strconv.ParseInt(of, 10, 64)
		}
		if err == nil && first >= 0 && first <= last && last < size {
			return first, last, size, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("the server does not serve ranges as S3 does: it answers with Content-Range %q", text)
}

// Delete removes an object, and takes back uploads of it: what a process that died
// has left of one, or one that somebody is still at who does not know better.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := blob.CheckName(name); err != nil {
		return err
	}
	// A server that refuses to list uploads may have no object in parts either.
	if err := s.takeBack(ctx, name); err != nil && (ctx.Err() != nil || Temporary(classify(err))) {
		return s.failed(ctx, "take back uploads of", name, err)
	}
	err := s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
	if err != nil && !noSuchKey(err) {
		return s.failed(ctx, "delete", name, err)
	}
	return nil
}

// List lists objects, a thousand at a time. Keys that are no name of an object,
// such as the "folders" that consoles make, are passed over.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		options := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		if err := ctx.Err(); err != nil {
			// The client would end without a word.
			yield(blob.Info{}, s.failed(ctx, "list", prefix, err))
			return
		}
		for object := range s.client.ListObjectsIter(ctx, s.bucket, options) {
			if object.Err != nil {
				yield(blob.Info{}, s.failed(ctx, "list", prefix, object.Err))
				return
			}
			name, ours := strings.CutPrefix(object.Key, s.prefix)
			if !ours || blob.CheckName(name) != nil {
				continue
			}
			if !yield(blob.Info{Name: name, Size: object.Size, Modified: object.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(blob.Info{}, s.failed(ctx, "list", prefix, err))
		}
	}
}
