package s3_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
	"github.com/sluiceio/sluice/services/kit/blob/retry"
	"github.com/sluiceio/sluice/services/kit/blob/s3"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const secret = "very-secret-key"

func options(f *fake) s3.Options {
	return s3.Options{
		Bucket: bucket, Prefix: "some/prefix/", Endpoint: f.url,
		Keys:  s3.Keys{Access: "access", Secret: secret},
		Retry: retry.Policy{Tries: 3, Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond}},
	}
}

func open(t *testing.T, o s3.Options) *s3.Store {
	t.Helper()
	store, err := s3.New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

func TestIsAStore(t *testing.T) {
	for name, change := range map[string]func(f *fake, o *s3.Options){
		"one request an object":         func(*fake, *s3.Options) {},
		"in parts":                      func(_ *fake, o *s3.Options) { o.PartBytes = 3 },
		"without checksums or a prefix": func(f *fake, o *s3.Options) { f.withoutChecksums, o.Prefix = true, "" },
		"in parts without checksums":    func(f *fake, o *s3.Options) { f.withoutChecksums, o.PartBytes = true, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			blobtest.Run(t, func(t *testing.T) blob.Store {
				f := newFake(t)
				o := options(f)
				change(f, &o)
				// Parts of three bytes are for small objects alone.
				large := o
				large.PartBytes = 0
				return largeInOne{open(t, o), open(t, large)}
			})
		})
	}
}

// What AWS_CA_BUNDLE names, or the profile, is who a server is trusted by.
func TestAuthoritiesOfAWS(t *testing.T) {
	f, authority := newTLSFake(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_CONFIG_FILE", "")
	use := func() error {
		t.Helper()
		o := options(f)
		var err error
		o.Authorities, err = s3.Authorities()
		require.NoError(t, err)
		for _, err := range open(t, o).List(t.Context(), "") {
			return err
		}
		return nil
	}
	require.ErrorContains(t, use(), "certificate", "the machine does not know it")
	t.Setenv("AWS_CA_BUNDLE", authority)
	require.NoError(t, use())

	t.Setenv("AWS_CA_BUNDLE", "")
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte("[default]\nca_bundle = "+authority+"\n"), 0o600))
	t.Setenv("AWS_CONFIG_FILE", config)
	require.NoError(t, use())

	// The variable wins, and what it names is all that counts.
	t.Setenv("AWS_CA_BUNDLE", newOtherAuthority(t))
	require.ErrorContains(t, use(), "certificate")

	for name, text := range map[string]string{"empty": "", "nonsense": "certificates", "cut": "-----BEGIN CERTIFICATE-----\nMIIB"} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		t.Setenv("AWS_CA_BUNDLE", file)
		_, err := s3.Authorities()
		require.EqualError(t, err, "AWS_CA_BUNDLE: there is no certificate in "+file+", expected a PEM file with those of authorities")
	}
	t.Setenv("AWS_CA_BUNDLE", "/nonexistent")
	_, err := s3.Authorities()
	require.ErrorContains(t, err, "AWS_CA_BUNDLE: open /nonexistent")
	t.Setenv("AWS_CA_BUNDLE", "")
	require.NoError(t, os.WriteFile(config, []byte("[default]\nca_bundle = /nonexistent\n"), 0o600))
	_, err = s3.Authorities()
	require.ErrorContains(t, err, "ca_bundle of the AWS profile: open /nonexistent")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	none, err := s3.Authorities()
	require.NoError(t, err)
	require.Nil(t, none, "the machine's")
}

// newOtherAuthority is one that has certified nobody.
func newOtherAuthority(t *testing.T) (file string) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "other.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return file
}

// largeInOne stores what would be too many parts with another store.
type largeInOne struct {
	blob.Store
	large blob.Store
}

func (l largeInOne) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	if size > 50 {
		return l.large.Put(ctx, name, src, size, crc32c)
	}
	return l.Store.Put(ctx, name, src, size, crc32c)
}

func put(t *testing.T, store blob.Store, name, data string) error {
	return store.Put(t.Context(), name, strings.NewReader(data), int64(len(data)), blobtest.Checksum([]byte(data)))
}

func TestKeysStandBelowThePrefix(t *testing.T) {
	f := newFake(t)
	blobtest.Put(t, open(t, options(f)), "a/b", nil)
	require.Equal(t, []string{"PUT some/prefix/a/b"}, f.requests())
	all := options(f)
	all.Prefix = ""
	blobtest.Put(t, open(t, all), "some/prefixed", nil)
	blobtest.Put(t, open(t, all), "some/other/a", nil)
	require.Equal(t, []string{"a/b"}, blobtest.Names(t, open(t, options(f)), ""))
}

func TestKeysThatAreNoNamesArePassedOver(t *testing.T) {
	f := newFake(t)
	f.mu.objects["some/prefix/"] = object{}
	f.mu.objects["some/prefix/folder/"] = object{}
	f.mu.objects["some/prefix/with space"] = object{}
	f.mu.objects["some/prefix/x"] = object{}
	require.Equal(t, []string{"x"}, blobtest.Names(t, open(t, options(f)), ""))
}

func TestAServerThatSpoilsIsFoundOut(t *testing.T) {
	for _, parts := range []int64{0, 3} {
		for _, without := range []bool{false, true} {
			f := newFake(t)
			f.withoutChecksums = without
			o := options(f)
			o.PartBytes = parts
			store := open(t, o)
			// It spoils before it answers: after the last request that stores, before
			// the one that reads back.
			f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if without && r.Method == http.MethodGet {
					f.spoil("some/prefix/o")
				}
				if !without && r.Method == http.MethodPut && parts == 0 {
					w.Header().Set("X-Amz-Checksum-Crc32c", sum([]byte("else")))
					_, _ = io.Copy(io.Discard, r.Body)
					w.WriteHeader(http.StatusOK)
					return true
				}
				if !without && r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
					fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>b</Bucket><ChecksumCRC32C>%s</ChecksumCRC32C></CompleteMultipartUploadResult>", sum([]byte("else")))
					return true
				}
				return false
			})
			err := put(t, store, "o", "0123456789")
			require.ErrorContains(t, err, "spoilt")
			require.True(t, s3.Temporary(err))
			require.Contains(t, f.requests(), "DELETE some/prefix/o")
			f.intercept(nil)
			require.Empty(t, blobtest.Names(t, store, ""))
		}
	}
}

// A source that changes between the two times that it is read.
type fickle struct {
	reads atomic.Int64
	data  string
	after int64
}

func (s *fickle) ReadAt(p []byte, off int64) (int, error) {
	n, err := strings.NewReader(s.data).ReadAt(p, off)
	if s.reads.Add(1) > s.after && n > 0 {
		p[0] ^= 1
	}
	return n, err
}

func TestASourceThatChangesIsFoundOut(t *testing.T) {
	f := newFake(t)
	o := options(f)
	o.PartBytes = 5
	store := open(t, o)
	src := &fickle{data: "0123456789", after: 2}
	require.ErrorIs(t, store.Put(t.Context(), "o", src, 10, blobtest.Checksum([]byte(src.data))), blob.ErrChecksum)
	require.Empty(t, blobtest.Names(t, store, ""))
	require.Zero(t, f.openUploads())
}

func TestPartsAreTriedAgainEachForItself(t *testing.T) {
	f := newFake(t)
	o := options(f)
	o.PartBytes = 4
	store := open(t, o)
	var failures atomic.Int64
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("partNumber") == "2" && failures.Add(1) <= 2 {
			refuse(w, http.StatusServiceUnavailable, "SlowDown", "slow down")
			return true
		}
		return false
	})
	require.NoError(t, put(t, store, "o", "0123456789"))
	require.Equal(t, "0123456789", string(blobtest.Get(t, store, "o")))
	puts := 0
	for _, r := range f.requests() {
		if r == "PUT some/prefix/o" {
			puts++
		}
	}
	require.Equal(t, 5, puts, "three parts, one of them three times")
}

func TestAFailedUploadIsTakenBack(t *testing.T) {
	f := newFake(t)
	o := options(f)
	o.PartBytes = 4
	store := open(t, o)
	for _, fail := range []func(r *http.Request) bool{
		func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "3" },
		func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") },
	} {
		f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !fail(r) {
				return false
			}
			refuse(w, http.StatusForbidden, "AccessDenied", "no")
			return true
		})
		err := put(t, store, "o", "0123456789")
		require.ErrorContains(t, err, "store object some/prefix/o in bucket fake-bucket: ")
		require.ErrorContains(t, err, "the server answers 403 AccessDenied: no")
		require.False(t, s3.Temporary(err))
		require.Zero(t, f.openUploads())
		f.intercept(nil)
		require.Empty(t, blobtest.Names(t, store, ""))
	}
}

func TestTidy(t *testing.T) {
	f := newFake(t)
	now := time.Now()
	f.mu.uploads["old"] = &upload{key: "some/prefix/a", began: now.Add(-time.Hour)}
	f.mu.uploads["new"] = &upload{key: "some/prefix/b", began: now}
	f.mu.uploads["other"] = &upload{key: "elsewhere/a", began: now.Add(-time.Hour)}
	gone, err := open(t, options(f)).Tidy(t.Context(), now.Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, gone)
	require.Contains(t, f.mu.uploads, "new")
	require.Contains(t, f.mu.uploads, "other")
}

func TestDeleteTakesBackUploads(t *testing.T) {
	f := newFake(t)
	store := open(t, options(f))
	for id, key := range map[string]string{"1": "some/prefix/a", "2": "some/prefix/a", "3": "some/prefix/ab", "4": "a"} {
		f.mu.uploads[id] = &upload{key: key, began: time.Now()}
	}
	require.NoError(t, store.Delete(t.Context(), "a"))
	require.Equal(t, 2, f.openUploads())
	require.Contains(t, f.mu.uploads, "3")
	require.Contains(t, f.mu.uploads, "4")

	// Whoever may not list them deletes the object all the same.
	blobtest.Put(t, store, "a", nil)
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("uploads") {
			refuse(w, http.StatusForbidden, "AccessDenied", "no")
			return true
		}
		return false
	})
	require.NoError(t, store.Delete(t.Context(), "a"))
	require.Empty(t, blobtest.Names(t, store, ""))
	// But an answer that did not come may have been one.
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("uploads") {
			refuse(w, http.StatusServiceUnavailable, "SlowDown", "no")
			return true
		}
		return false
	})
	require.True(t, s3.Temporary(store.Delete(t.Context(), "a")))
}

// What a server or the way to it does, whether it may pass, and what the error
// says.
func TestFailures(t *testing.T) {
	answer := func(status int, code string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			refuse(w, status, code, "a message.")
			return true
		}
	}
	hijack := func(text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return false
			}
			_, _ = io.WriteString(conn, text)
			conn.Close()
			return true
		}
	}
	plain := func(status int, text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			fmt.Fprint(w, text)
			return true
		}
	}
	for name, c := range map[string]struct {
		before    func(w http.ResponseWriter, r *http.Request) bool
		temporary bool
		says      string
	}{
		"slow down":           {answer(503, "SlowDown"), true, "the server answers 503 SlowDown: a message"},
		"internal error":      {answer(500, "InternalError"), true, "500 InternalError"},
		"bad gateway":         {plain(502, "<html>bad</html>"), true, "502"},
		"gateway timeout":     {plain(504, ""), true, "504"},
		"too many":            {answer(429, "TooManyRequests"), true, "429"},
		"request timeout":     {answer(400, "RequestTimeout"), true, "400 RequestTimeout"},
		"in between":          {answer(409, "Conflict"), true, "409 Conflict"},
		"denied":              {answer(403, "AccessDenied"), false, "403 AccessDenied: a message"},
		"wrong secret":        {answer(403, "SignatureDoesNotMatch"), false, "403 SignatureDoesNotMatch"},
		"malformed":           {answer(400, "InvalidRequest"), false, "400 InvalidRequest"},
		"no such bucket":      {answer(404, "NoSuchBucket"), false, "404 NoSuchBucket"},
		"somebody's 404":      {plain(404, "<html>not here</html>"), false, "404"},
		"not implemented":     {answer(501, "NotImplemented"), false, "501 NotImplemented"},
		"redirected":          {answer(301, "PermanentRedirect"), false, "301 PermanentRedirect"},
		"hung up":             {hijack(""), true, "no answer: "},
		"nonsense":            {hijack("what?\n"), true, "no answer: "},
		"half a header":       {hijack("HTTP/1.1 200 OK\r\nContent-Le"), true, "no answer: "},
		"half of an error":    {hijack("HTTP/1.1 503 Busy\r\nContent-Length: 50\r\n\r\n<Error><Co"), true, "breaks off: "},
		"an error of nothing": {plain(500, ""), true, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			store := open(t, options(f))
			f.intercept(c.before)
			_, read := store.ReadAt(t.Context(), "o", make([]byte, 1), 0)
			errs := map[string]error{"put": put(t, store, "o", "x"), "read": read, "delete": store.Delete(t.Context(), "o")}
			for _, err := range store.List(t.Context(), "") {
				errs["list"] = err
			}
			_, errs["tidy"] = store.Tidy(t.Context(), time.Now())
			require.Len(t, errs, 5)
			for op, err := range errs {
				require.Error(t, err, op)
				require.ErrorContains(t, err, c.says, op)
				require.Equal(t, c.temporary, s3.Temporary(err), "%s: %v", op, err)
				require.NotErrorIs(t, err, blob.ErrNotFound, op)
				require.NotErrorIs(t, err, io.EOF, op)
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	store := open(t, s3.Options{Bucket: bucket, Endpoint: "http://127.0.0.1:1", Keys: s3.Keys{Access: "a", Secret: secret}})
	err := put(t, store, "o", "x")
	require.ErrorContains(t, err, "connection refused")
	require.True(t, s3.Temporary(err))
}

func TestHTTPWhereHTTPSIsExpected(t *testing.T) {
	f := newFake(t)
	o := options(f)
	o.Endpoint = strings.Replace(f.url, "http:", "https:", 1)
	err := put(t, open(t, o), "o", "x")
	require.ErrorContains(t, err, "HTTP response to HTTPS client")
	require.False(t, s3.Temporary(err))
}

func TestReadsAreWhatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		header, body string
		temporary    bool
		says         string
	}{
		"no range":        {"Content-Length: 10\r\n", "0123456789", false, "does not serve ranges"},
		"another range":   {"Content-Range: bytes 0-4/10\r\nContent-Length: 5\r\n", "01234", true, "asked for 5 bytes from 2 on, the server sends 0 to 4 of 10"},
		"a shorter range": {"Content-Range: bytes 2-4/10\r\nContent-Length: 3\r\n", "234", true, "the server sends 2 to 4 of 10"},
		"half a body":     {"Content-Range: bytes 2-6/10\r\nContent-Length: 5\r\n", "234", true, "broke after 3 of 5 bytes"},
		"nonsense":        {"Content-Range: bytes 7-2/1\r\nContent-Length: 5\r\n", "23456", false, "does not serve ranges"},
	} {
		f := newFake(t)
		f.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return false
			}
			fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: e\r\nLast-Modified: Mon, 2 Jan 2006 15:04:05 GMT\r\n%s\r\n%s", c.header, c.body)
			conn.Close()
			return true
		})
		_, err := open(t, options(f)).ReadAt(t.Context(), "o", make([]byte, 5), 2)
		require.ErrorContains(t, err, c.says, name)
		require.Equal(t, c.temporary, s3.Temporary(err), name)
	}
}

func TestEndsWhenItsContextDoes(t *testing.T) {
	f := newFake(t)
	store := open(t, options(f))
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	defer close(release)
	f.intercept(func(http.ResponseWriter, *http.Request) bool {
		arrived <- struct{}{}
		<-release
		return true
	})
	for _, do := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			return store.Put(ctx, "o", strings.NewReader("x"), 1, blobtest.Checksum([]byte("x")))
		},
		func(ctx context.Context) error { _, err := store.ReadAt(ctx, "o", make([]byte, 1), 0); return err },
		func(ctx context.Context) error { return store.Delete(ctx, "o") },
		func(ctx context.Context) (last error) {
			for _, err := range store.List(ctx, "") {
				last = errors.Join(last, err)
			}
			return last
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		require.ErrorIs(t, do(ctx), context.Canceled)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []s3.Options{
		{Endpoint: "127.0.0.1:9000"},
		{Endpoint: "ftp://host"},
		{Endpoint: "http://"},
		{Endpoint: "http://me:" + secret + "@host"},
		{Endpoint: "http://host:x" + secret + "/"},
		{Endpoint: "http://host/path"},
		{Endpoint: "http://host?x=y"},
		{Prefix: "no-slash"},
		{Prefix: "../"},
		{Prefix: "/"},
		{Prefix: strings.Repeat("x", 512) + "/"},
	} {
		o.Bucket = bucket
		_, err := s3.New(o)
		require.ErrorContains(t, err, "expected", "%+v", o)
		require.NotContains(t, err.Error(), secret)
	}
}

// clean takes away what the machine knows of Amazon.
func clean(t *testing.T) (home string) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	home = t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".aws"), 0o700))
	return home
}

func write(t *testing.T, home, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(home, ".aws", name), []byte(text), 0o600))
}

func TestKeysAreFoundWhereAmazonsToolsLook(t *testing.T) {
	signed := func(keys s3.Keys, region string) string {
		f := newFake(t)
		o := options(f)
		o.Keys, o.Region = keys, region
		require.NoError(t, put(t, open(t, o), "o", "x"))
		return strings.Replace(f.signed()[0], time.Now().UTC().Format("20060102"), "DAY", 1)
	}
	home := clean(t)
	write(t, home, "config", "[profile other]\naws_access_key_id = config-other\naws_secret_access_key = s\n")
	write(t, home, "credentials", "[default]\naws_access_key_id = file\naws_secret_access_key = s\n")
	require.Equal(t, "file/DAY/us-east-1/s3 ", signed(s3.Keys{}, ""))
	t.Setenv("AWS_PROFILE", "other")
	require.Equal(t, "config-other/DAY/eu-x/s3 ", signed(s3.Keys{}, "eu-x"))
	t.Setenv("AWS_ACCESS_KEY_ID", "env")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	t.Setenv("AWS_SESSION_TOKEN", "token")
	require.Equal(t, "env/DAY/us-east-1/s3 token", signed(s3.Keys{}, ""))
	require.Equal(t, "given/DAY/us-east-1/s3 ", signed(s3.Keys{Access: "given", Secret: "s"}, ""))
}

func TestSaysWhereItLookedForKeys(t *testing.T) {
	home := clean(t)
	write(t, home, "credentials", "[default]\naws_access_key_id = "+secret+"\n")
	// A role of a container, whose service is not there.
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/")
	f := newFake(t)
	o := options(f)
	o.Keys = s3.Keys{}
	err := put(t, open(t, o), "o", "x")
	require.ErrorContains(t, err, "there is no access key; the environment (AWS_ACCESS_KEY_ID): none; the files of AWS: profile has partial static credentials")
	require.ErrorContains(t, err, "the machine's role: ")
	require.NotContains(t, err.Error(), secret)
	require.Empty(t, f.requests())
}

func TestEnvironment(t *testing.T) {
	home := clean(t)
	get := func() string {
		region, endpoint, err := s3.Environment()
		require.NoError(t, err)
		return region + " " + endpoint
	}
	require.Equal(t, " ", get())
	write(t, home, "config", "[default]\nregion = r0\n[profile p]\nregion=r1\nendpoint_url = http://e1\ns3 =\n  x = y\n")
	require.Equal(t, "r0 ", get())
	t.Setenv("AWS_PROFILE", "p")
	require.Equal(t, "r1 http://e1", get())
	t.Setenv("AWS_DEFAULT_REGION", "r2")
	t.Setenv("AWS_ENDPOINT_URL", "http://e2")
	require.Equal(t, "r2 http://e2", get())
	t.Setenv("AWS_REGION", "r3")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://e3")
	require.Equal(t, "r3 http://e3", get())
	t.Setenv("AWS_CONFIG_FILE", home)
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	_, _, err := s3.Environment()
	require.ErrorContains(t, err, home)
}

func TestStyles(t *testing.T) {
	f := newFake(t)
	for style, want := range map[s3.Style]string{s3.AutoStyle: "127.0.0.1", s3.PathStyle: "127.0.0.1"} {
		var host string
		f.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			host, _, _ = strings.Cut(r.Host, ":")
			return false
		})
		o := options(f)
		o.Style = style
		require.NoError(t, put(t, open(t, o), "o", "x"))
		require.Equal(t, want, host)
	}
	o := options(f)
	o.Style = s3.HostStyle
	// There is no such host here; its name is in the error.
	require.ErrorContains(t, put(t, open(t, o), "o", "x"), bucket)
}

// The source is its caller's again when Put has returned, even if the server
// answers before it has read all.
func TestLeavesTheSourceAlone(t *testing.T) {
	f := newFake(t)
	store := open(t, options(f))
	f.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusForbidden, "AccessDenied", "no")
		return true
	})
	data := bytes.Repeat([]byte("x"), 8<<20)
	require.Error(t, store.Put(t.Context(), "o", bytes.NewReader(data), int64(len(data)), blobtest.Checksum(data)))
	for i := range data { // the race detector sees a reader
		data[i] = 'y'
	}
	require.True(t, slices.Contains(f.requests(), "PUT some/prefix/o"))
}
