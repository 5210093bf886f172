package coldstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob/s3"
	"github.com/sluiceio/sluice/services/kit/conf"
)

const secret = "nobody-may-see-this"

// parse is a config from a command line, where AWS is nothing but env.
func parse(t *testing.T, env map[string]string, args ...string) *Config {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
	for name, value := range env {
		t.Setenv(name, value)
	}
	var c Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.RegisterFlags(fs)
	require.NoError(t, fs.Parse(args))
	return &c
}

func TestLocations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("  "+secret+"\n"), 0o600))
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want place
	}{
		"none":          {nil, nil, place{}},
		"folder":        {nil, []string{"--cold-storage=/mnt/cold/"}, place{folder: "/mnt/cold"}},
		"relative":      {nil, []string{"--cold-storage=cold"}, place{folder: "cold"}},
		"file URL":      {nil, []string{"--cold-storage=file:///mnt/a%20b"}, place{folder: "/mnt/a b"}},
		"bucket":        {nil, []string{"--cold-storage=s3://my.bucket-1"}, place{bucket: s3.Options{Bucket: "my.bucket-1"}}},
		"prefix":        {nil, []string{"--cold-storage=s3://bucket/a/b/"}, place{bucket: s3.Options{Bucket: "bucket", Prefix: "a/b/"}}},
		"slash":         {nil, []string{"--cold-storage=s3://bucket/"}, place{bucket: s3.Options{Bucket: "bucket"}}},
		"parameters":    {nil, []string{"--cold-storage=s3://bucket?region=r&endpoint=http://h:1&path-style=true"}, place{bucket: s3.Options{Bucket: "bucket", Region: "r", Endpoint: "http://h:1", Style: s3.PathStyle}}},
		"host style":    {nil, []string{"--cold-storage=s3://bucket?path-style=false"}, place{bucket: s3.Options{Bucket: "bucket", Style: s3.HostStyle}}},
		"flags":         {nil, []string{"--cold-storage=s3://bucket", "--cold-storage-region=r", "--cold-storage-endpoint=https://h"}, place{bucket: s3.Options{Bucket: "bucket", Region: "r", Endpoint: "https://h"}}},
		"said twice":    {nil, []string{"--cold-storage=s3://bucket?region=r", "--cold-storage-region=r"}, place{bucket: s3.Options{Bucket: "bucket", Region: "r"}}},
		"keys":          {nil, []string{"--cold-storage=s3://bucket", "--cold-storage-access-key=id", "--cold-storage-secret-key-file=" + file}, place{bucket: s3.Options{Bucket: "bucket", Keys: s3.Keys{Access: "id", Secret: secret}}}},
		"environment":   {map[string]string{"AWS_REGION": "er", "AWS_ENDPOINT_URL": "http://e"}, []string{"--cold-storage=s3://bucket"}, place{bucket: s3.Options{Bucket: "bucket", Region: "er", Endpoint: "http://e"}}},
		"flags win":     {map[string]string{"AWS_REGION": "er", "AWS_ENDPOINT_URL_S3": "http://e"}, []string{"--cold-storage=s3://bucket?region=r", "--cold-storage-endpoint=http://f"}, place{bucket: s3.Options{Bucket: "bucket", Region: "r", Endpoint: "http://f"}}},
		"not for files": {map[string]string{"AWS_REGION": "er", "AWS_ENDPOINT_URL": "nonsense"}, []string{"--cold-storage=/mnt"}, place{folder: "/mnt"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := parse(t, c.env, c.args...)
			require.NoError(t, config.Validate("/var/lib/sluice"))
			got, err := config.place()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			cold, err := config.Open()
			require.NoError(t, err)
			if got.folder == "" && got.bucket.Bucket == "" {
				require.Nil(t, cold)
				return
			}
			require.NotContains(t, cold.name, secret)
			require.NoError(t, cold.Close())
		})
	}
}

func TestRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		args string
		says string
	}{
		{"--cold-storage=gs://bucket", `begins with "gs:", expected a folder`},
		{"--cold-storage=https://key:" + secret + "@bucket", `begins with "https:", expected a folder`},
		{"--cold-storage=S3://bucket", `begins with "S3:"`},
		{"--cold-storage=file://host/path", "expected file:///path"},
		{"--cold-storage=file://me:" + secret + "@localhost/path", "expected file:///path"},
		{"--cold-storage=file:relative", "expected file:///path"},
		{"--cold-storage=file:///path?region=x", "expected file:///path"},
		{"--cold-storage=s3:bucket", "expected s3://bucket/prefix"},
		{"--cold-storage=s3:///prefix", `bucket "", expected 3 to 63`},
		{"--cold-storage=s3://Bucket", `bucket "Bucket", expected 3 to 63`},
		{"--cold-storage=s3://b_b_b", `bucket "b_b_b", expected 3 to 63`},
		{"--cold-storage=s3://bucket:80", "expected s3://bucket/prefix"},
		{"--cold-storage=s3://bucket#x", "expected s3://bucket/prefix"},
		{"--cold-storage=s3://key:" + secret + "@bucket", "has a key in it"},
		{"--cold-storage=s3://bucket/a//b", `prefix "a//b", expected`},
		{"--cold-storage=s3://bucket/a/../b", `prefix "a/../b", expected`},
		{"--cold-storage=s3://bucket/" + long, "expected at most 511"},
		{"--cold-storage=s3://bucket?regoin=x", `no parameter "regoin", expected region, endpoint or path-style`},
		{"--cold-storage=s3://bucket?secret=" + secret, `no parameter "secret"`},
		{"--cold-storage=s3://bucket?region=a&region=b", "parameter region, expected one value"},
		{"--cold-storage=s3://bucket?region=", "parameter region, expected one value"},
		{"--cold-storage=s3://bucket?path-style=perhaps", "path-style, expected true or false"},
		{"--cold-storage=s3://bucket?endpoint=host:80", "--cold-storage-endpoint: expected http://host:port"},
		{"--cold-storage=s3://bucket?endpoint=http://me:" + secret + "@host", "--cold-storage-endpoint: expected http://host:port"},
		{"--cold-storage=s3://bucket --cold-storage-endpoint=http://host/path", "--cold-storage-endpoint: expected http://host:port"},
		{"--cold-storage=s3://bucket?endpoint=http://a --cold-storage-endpoint=http://b", "--cold-storage-endpoint and the endpoint in --cold-storage differ"},
		{"--cold-storage=s3://bucket?region=a --cold-storage-region=b", "--cold-storage-region and the region in --cold-storage differ"},
		{"--cold-storage=s3://bucket --cold-storage-access-key=" + secret, "must be given together"},
		{"--cold-storage=s3://bucket --cold-storage-secret-key-file=" + empty, "must be given together"},
		{"--cold-storage=s3://bucket --cold-storage-access-key=id --cold-storage-secret-key-file=" + empty, "is empty, expected the secret"},
		{"--cold-storage=s3://bucket --cold-storage-access-key=id --cold-storage-secret-key-file=/nonexistent", "/nonexistent"},
		{"--cold-storage-region=r", "--cold-storage-region is for --cold-storage s3://"},
		{"--cold-storage-endpoint=http://e", "--cold-storage-endpoint is for --cold-storage s3://"},
		{"--cold-storage=/mnt --cold-storage-access-key=id", "--cold-storage-access-key is for --cold-storage s3://"},
		{"--cold-storage=/mnt --cold-storage-secret-key-file=f", "--cold-storage-secret-key-file is for --cold-storage s3://"},
		{"--cold-storage=/var/lib/sluice", "within --data-dir"},
		{"--cold-storage=/var/lib/sluice/cold", "within --data-dir"},
		{"--cold-storage=file:///var", "within --data-dir"},
		{"--cold-storage=/var/lib/x/../sluice/x", "within --data-dir"},
	} {
		t.Run(c.args, func(t *testing.T) {
			err := parse(t, nil, strings.Split(c.args, " ")...).Validate("/var/lib/sluice")
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), secret)
		})
	}
	require.ErrorContains(t, parse(t, map[string]string{"AWS_ENDPOINT_URL": "host:80"}, "--cold-storage=s3://bucket").Validate("/var"),
		"--cold-storage-endpoint (of the AWS environment): expected http://host:port")
	bundle := map[string]string{"AWS_CA_BUNDLE": empty}
	require.ErrorContains(t, parse(t, bundle, "--cold-storage=s3://bucket").Validate("/var"),
		"--cold-storage: AWS_CA_BUNDLE: there is no certificate in "+empty)
	require.NoError(t, parse(t, bundle, "--cold-storage=/mnt").Validate("/var"), "it is about S3")
	require.NoError(t, parse(t, nil, "--cold-storage=/var/lib/sluice-cold").Validate("/var/lib/sluice"))
}

func TestTheAccessKeyIsNotLogged(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.RegisterFlags(fs)
	require.NoError(t, fs.Parse([]string{"--cold-storage-access-key=" + secret}))
	for _, attr := range conf.Dump(fs) {
		require.NotContains(t, attr.Value.String(), secret)
	}
}
