package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// errPastEnd is a read from past an object's end.
var errPastEnd = errors.New("past the end")

// failure is a request that did not succeed. It has no cause that a caller could
// mistake for an answer, such as io.EOF of a connection.
type failure struct {
	text      string
	temporary bool
}

func (f *failure) Error() string { return f.text }

// Temporary says whether an operation that failed so may succeed later: it ran
// into a timeout, a connection broke, or the server has trouble or too much to do.
// What the server refuses for good it does not.
func Temporary(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.temporary
}

// failed says what a request was about, and what became of it in the terms of
// package blob.
func (s *Store) failed(ctx context.Context, op, name string, err error) error {
	about := fmt.Sprintf("%s object %s%s in bucket %s", op, s.prefix, name, s.bucket)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", about, context.Cause(ctx))
	}
	if noSuchKey(err) {
		return fmt.Errorf("%s: %w", about, blob.ErrNotFound)
	}
	return fmt.Errorf("%s: %w", about, classify(err))
}

// classify turns what the client returns into failures. Errors of ours stay.
func classify(err error) error {
	if _, ok := errors.AsType[*sourceError](err); ok {
		return err
	}
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return refused(response)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return &failure{text: "no answer: " + request.Err.Error(), temporary: !hopeless(request)}
	}
	_, broken := errors.AsType[net.Error](err)
	_, cut := errors.AsType[*xml.SyntaxError](err)
	if broken || cut || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &failure{text: "the answer breaks off: " + err.Error(), temporary: true}
	}
	return err
}

func refused(r minio.ErrorResponse) error {
	f := &failure{text: fmt.Sprintf("the server answers %d %s: %s", r.StatusCode, r.Code, strings.TrimSuffix(r.Error(), "."))}
	switch {
	case r.RequestID == "minio":
		// The client itself refused to ask.
		f.text = r.Error()
	case passing[r.Code]:
		f.temporary = true
	case r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusTooManyRequests,
		// Another request came in between, such as one that took away a folder.
		r.StatusCode == http.StatusConflict:
		f.temporary = true
	case r.StatusCode == http.StatusNotImplemented, r.StatusCode == http.StatusHTTPVersionNotSupported:
	case r.StatusCode >= http.StatusInternalServerError:
		f.temporary = true
	}
	return f
}

// passing are S3's codes for what passes, whatever the status that they come
// with: some come with 400, or in the body of a 200.
var passing = map[string]bool{
	"InternalError":          true,
	"OperationAborted":       true,
	"RequestTimeout":         true,
	"ServiceUnavailable":     true,
	"SlowDown":               true,
	"SlowDownRead":           true,
	"SlowDownWrite":          true,
	"Throttling":             true,
	"ThrottlingException":    true,
	"RequestLimitExceeded":   true,
	"BandwidthLimitExceeded": true,
	// An upload that was completed, and the answer lost, is not there any more.
	"NoSuchUpload": true,
}

// hopeless says that a connection cannot come about as things are configured.
func hopeless(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}

// noSuchKey says that the server answered that there is no such object. A 404
// without S3's own words may come from anybody on the way.
func noSuchKey(err error) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && r.Code == minio.NoSuchKey && r.XMLName.Local == "Error"
}

func refusedRange(err error) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (r.Code == "InvalidRange" || r.StatusCode == http.StatusRequestedRangeNotSatisfiable)
}

func replaced(err error) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && r.StatusCode == http.StatusPreconditionFailed
}
