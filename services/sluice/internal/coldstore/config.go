// Package coldstore is the cold storage of a node as an operator names it: where it
// is, with whose keys, and whether it can be used.
package coldstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/services/kit/conf"
)

// Config names a store.
type Config struct {
	// Location is a folder, file:///path, or s3://bucket/prefix with region,
	// endpoint and path-style as parameters; empty is none.
	Location string
	// Endpoint and Region of S3 may stand here as well. What stands nowhere is
	// taken from the environment and the files of Amazon's tools.
	Endpoint, Region string
	// AccessKey and the file that has its secret; neither: they are looked for
	// where Amazon's tools do.
	AccessKey, SecretKeyFile string
}

// RegisterFlags registers the flags with their defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Location, "cold-storage", "", "`place` for old segments: a folder, file:///path, or s3://bucket/prefix?region=…&endpoint=…&path-style=true; empty for none")
	fs.StringVar(&c.Endpoint, "cold-storage-endpoint", "", "`URL` of an S3 server that is not Amazon's, such as https://s3.example.com (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or the AWS profile)")
	fs.StringVar(&c.Region, "cold-storage-region", "", "`region` of the S3 bucket (default: AWS_REGION, or the AWS profile)")
	fs.StringVar(&c.AccessKey, "cold-storage-access-key", "", "`id` of the access key for S3 (default: AWS_ACCESS_KEY_ID, the AWS profile, or the machine's role)")
	fs.StringVar(&c.SecretKeyFile, "cold-storage-secret-key-file", "", "`file` with the secret of --cold-storage-access-key")
	conf.MarkSecret(fs, "cold-storage-access-key")
}

// Validate reports all faults together. The node's data directory is none of its
// cold storage's folders.
func (c *Config) Validate(dataDir string) error {
	place, err := c.place()
	if err != nil {
		return err
	}
	if place.folder != "" && (within(place.folder, dataDir) || within(dataDir, place.folder)) {
		return errors.New("--cold-storage is a folder within --data-dir, or the other way round: expected one apart from it")
	}
	return nil
}

// within says whether a folder is another one or lies in it.
func within(folder, other string) bool {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return false
	}
	if other, err = filepath.Abs(other); err != nil {
		return false
	}
	rel, err := filepath.Rel(other, folder)
	return err == nil && filepath.IsLocal(rel)
}

// secret reads the secret of the access key.
func (c *Config) secret() (string, error) {
	if c.SecretKeyFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.SecretKeyFile)
	if err != nil {
		return "", fmt.Errorf("--cold-storage-secret-key-file: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("--cold-storage-secret-key-file: %s is empty, expected the secret of --cold-storage-access-key", c.SecretKeyFile)
	}
	return secret, nil
}
