package s3_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
)

const bucket = "fake-bucket"

// fake speaks as much of S3 as the store does. What a real server makes of the
// store is tested in integration/cold.
type fake struct {
	url string
	// Of a server that knows nothing of checksums.
	withoutChecksums bool

	mu struct {
		sync.Mutex
		objects map[string]object
		uploads map[string]*upload
		made    int
		// before may answer a request itself, and then says so.
		before func(w http.ResponseWriter, r *http.Request) bool
		// requests by method and path, without the bucket.
		requests []string
		// regions and access keys that requests were signed with.
		signed []string
	}
}

type object struct {
	data     []byte
	modified time.Time
	etag     string
}

type upload struct {
	key   string
	parts map[int][]byte
	began time.Time
}

func newFake(t *testing.T) *fake {
	f := &fake{}
	f.mu.objects, f.mu.uploads = map[string]object{}, map[string]*upload{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// newTLSFake speaks TLS, and is certified by the authority in a file.
func newTLSFake(t *testing.T) (f *fake, authority string) {
	f = &fake{}
	f.mu.objects, f.mu.uploads = map[string]object{}, map[string]*upload{}
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	f.url = server.URL
	authority = filepath.Join(t.TempDir(), "authority.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(authority, block, 0o600))
	return f, authority
}

// intercept sets what is asked before each request.
func (f *fake) intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.before, f.mu.requests = before, nil
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.requests)
}

func (f *fake) signed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.signed)
}

// openUploads is how many multipart uploads are under way.
func (f *fake) openUploads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.uploads)
}

// spoil changes a stored byte.
func (f *fake) spoil(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.objects[key].data[0] ^= 1
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+bucket), "/")
	f.mu.Lock()
	f.mu.requests = append(f.mu.requests, r.Method+" "+key)
	credential, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/aws4")
	f.mu.signed = append(f.mu.signed, credential+" "+r.Header.Get("X-Amz-Security-Token"))
	before := f.mu.before
	f.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	body, err := readBody(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "IncompleteBody", err.Error())
		return
	}
	if given := r.Header.Get("X-Amz-Checksum-Crc32c"); given != "" && r.Method == http.MethodPut && !f.withoutChecksums {
		if given != sum(body) {
			refuse(w, http.StatusBadRequest, "BadDigest", "checksum "+given)
			return
		}
		w.Header().Set("X-Amz-Checksum-Crc32c", given)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serveLocked(w, r, key, body)
}

func (f *fake) serveLocked(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	id := query.Get("uploadId")
	if id != "" && f.mu.uploads[id] == nil {
		refuse(w, http.StatusNotFound, "NoSuchUpload", "no such upload")
		return
	}
	switch {
	case r.Method == http.MethodGet && query.Has("list-type"):
		f.listLocked(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == http.MethodGet && query.Has("uploads"):
		f.listUploadsLocked(w, query.Get("prefix"))
	case r.Method == http.MethodPost && query.Has("uploads"):
		f.mu.made++
		id := strconv.Itoa(f.mu.made)
		f.mu.uploads[id] = &upload{key: key, parts: map[int][]byte{}, began: time.Now()}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case r.Method == http.MethodPut && id != "":
		number, _ := strconv.Atoi(query.Get("partNumber"))
		f.mu.uploads[id].parts[number] = body
		w.Header().Set("ETag", `"e"`)
	case r.Method == http.MethodPost && id != "":
		f.completeLocked(w, r, id)
	case r.Method == http.MethodDelete && id != "":
		delete(f.mu.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		w.Header().Set("ETag", f.storeLocked(key, body))
	case r.Method == http.MethodDelete:
		delete(f.mu.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		o, ok := f.mu.objects[key]
		if !ok {
			refuse(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		}
		w.Header().Set("ETag", o.etag)
		if len(o.data) == 0 {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "not satisfiable")
			return
		}
		http.ServeContent(w, r, "", o.modified, bytes.NewReader(o.data))
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented", r.Method)
	}
}

func (f *fake) completeLocked(w http.ResponseWriter, r *http.Request, id string) {
	u := f.mu.uploads[id]
	var data []byte
	for _, number := range slices.Sorted(maps.Keys(u.parts)) {
		data = append(data, u.parts[number]...)
	}
	checksum := ""
	if !f.withoutChecksums {
		if given := r.Header.Get("X-Amz-Checksum-Crc32c"); given != sum(data) {
			refuse(w, http.StatusBadRequest, "BadDigest", "checksum "+given)
			return
		}
		checksum = "<ChecksumCRC32C>" + sum(data) + "</ChecksumCRC32C>"
	}
	delete(f.mu.uploads, id)
	fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>%s</Bucket><ETag>%s</ETag>%s</CompleteMultipartUploadResult>",
		bucket, f.storeLocked(u.key, data), checksum)
}

func (f *fake) storeLocked(key string, data []byte) (etag string) {
	f.mu.made++
	etag = strconv.Quote(strconv.Itoa(f.mu.made))
	f.mu.objects[key] = object{data, time.Now(), etag}
	return etag
}

type listed struct {
	Key          string
	Size         int
	LastModified string
}

func (f *fake) listLocked(w http.ResponseWriter, prefix, after string) {
	const page = 100
	var result struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Contents              []listed
		IsTruncated           bool
		NextContinuationToken string
	}
	for _, key := range slices.Sorted(maps.Keys(f.mu.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if len(result.Contents) == page {
			result.IsTruncated, result.NextContinuationToken = true, result.Contents[page-1].Key
			break
		}
		o := f.mu.objects[key]
		result.Contents = append(result.Contents, listed{key, len(o.data), o.modified.UTC().Format(time.RFC3339Nano)})
	}
	_ = xml.NewEncoder(w).Encode(result)
}

func (f *fake) listUploadsLocked(w http.ResponseWriter, prefix string) {
	type open struct {
		Key       string
		ID        string `xml:"UploadId"`
		Initiated string
	}
	var result struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []open
	}
	for id, u := range f.mu.uploads {
		if strings.HasPrefix(u.key, prefix) {
			result.Upload = append(result.Upload, open{u.key, id, u.began.UTC().Format(time.RFC3339Nano)})
		}
	}
	slices.SortFunc(result.Upload, func(a, b open) int { return cmp.Compare(a.ID, b.ID) })
	_ = xml.NewEncoder(w).Encode(result)
}

// readBody reads a body and checks its signature's hash, without which nothing says
// that it is what was sent.
func readBody(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(data)
	if signed := r.Header.Get("X-Amz-Content-Sha256"); signed != hex.EncodeToString(hash[:]) && r.ContentLength > 0 {
		return nil, fmt.Errorf("the payload is signed as %q", signed)
	}
	return data, nil
}

func sum(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, blobtest.Checksum(data)))
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message><RequestId>1</RequestId></Error>", code, message)
}
