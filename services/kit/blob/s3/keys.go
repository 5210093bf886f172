package s3

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"
)

// Keys are an access key with its secret. Without any they are looked for where
// Amazon's own tools do: in the environment (AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), in ~/.aws/credentials and
// ~/.aws/config under AWS_PROFILE, and from the web identity, container or
// instance that the process runs as.
type Keys struct {
	Access, Secret string
}

func (k Keys) credentials(transport http.RoundTripper) *credentials.Credentials {
	if k.Access != "" {
		return credentials.NewStaticV4(k.Access, k.Secret, "")
	}
	return credentials.New(&chain{providers: []named{
		{"the environment (AWS_ACCESS_KEY_ID)", &credentials.EnvAWS{}},
		{"the files of AWS", &credentials.FileAWSCredentials{}},
		// Where there is no such service nobody may answer at all.
		{"the machine's role", &credentials.IAM{Client: &http.Client{Transport: transport, Timeout: 5 * time.Second}}},
	}})
}

type named struct {
	from string
	credentials.Provider
}

// chain asks one provider after the other. The client's own falls back to asking
// without a key, whose refusal would not say what is missing.
type chain struct {
	providers []named
	current   credentials.Provider
}

var errNone = errors.New("none")

// Retrieve is called under a lock.
func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext is called under a lock.
func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	var tried []string
	for _, p := range c.providers {
		value, err := p.RetrieveWithCredContext(cc)
		if err == nil && (value.AccessKeyID == "" || value.SecretAccessKey == "") {
			err = errNone
		}
		if err == nil {
			c.current = p
			return value, nil
		}
		tried = append(tried, fmt.Sprintf("%s: %v", p.from, err))
	}
	return credentials.Value{}, &failure{text: "there is no access key; " + strings.Join(tried, "; "), temporary: true}
}

// IsExpired says that Retrieve is to be called.
func (c *chain) IsExpired() bool { return c.current == nil || c.current.IsExpired() }

// Environment is what Amazon's tools find in the environment, and else in the
// profile of ~/.aws/config: the region and the endpoint.
func Environment() (region, endpoint string, err error) {
	region = firstOf(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	endpoint = firstOf(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if region != "" && endpoint != "" {
		return region, endpoint, nil
	}
	profile, err := profile()
	if err != nil || profile == nil {
		return region, endpoint, err
	}
	return firstOf(region, profile.Key("region").String()), firstOf(endpoint, profile.Key("endpoint_url").String()), nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// profile is the section of ~/.aws/config, or nil.
func profile() (*ini.Section, error) {
	name := os.Getenv("AWS_CONFIG_FILE")
	if name == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil //nolint:nilerr // a service without a home has no file there
		}
		name = filepath.Join(home, ".aws", "config")
	}
	file, err := ini.LoadSources(ini.LoadOptions{Loose: true, AllowNestedValues: true}, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	section := "default"
	if p := os.Getenv("AWS_PROFILE"); p != "" && p != "default" {
		section = "profile " + p
	}
	if !file.HasSection(section) {
		return nil, nil
	}
	return file.Section(section), nil
}
