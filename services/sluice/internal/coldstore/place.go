package coldstore

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/s3"
)

// place is what a Config names: nothing, a folder or a bucket.
type place struct {
	folder string
	// bucket is set if its Bucket is.
	bucket s3.Options
}

// expectedLocation says what --cold-storage may be. Errors do not repeat what it
// is: it might have a password in it.
const expectedLocation = "expected a folder, file:///path or s3://bucket/prefix"

var (
	// scheme is the begin of what is no path.
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	// buckets is how Amazon lets a bucket be called.
	buckets = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
)

func (c *Config) place() (place, error) {
	kind := scheme.FindString(c.Location)
	if kind == "s3:" {
		options, err := c.bucket()
		return place{bucket: options}, err
	}
	var p place
	var faults []error
	switch kind {
	case "":
		if c.Location != "" {
			p.folder = filepath.Clean(c.Location)
		}
	case "file:":
		u, err := url.Parse(c.Location)
		if err != nil || u.User != nil || u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" || u.Fragment != "" {
			faults = append(faults, errors.New("--cold-storage: expected file:///path with nothing else"))
			break
		}
		p.folder = filepath.Clean(filepath.FromSlash(u.Path))
	default:
		faults = append(faults, fmt.Errorf("--cold-storage begins with %q, %s", kind, expectedLocation))
	}
	for flag, value := range map[string]string{
		"--cold-storage-endpoint": c.Endpoint, "--cold-storage-region": c.Region,
		"--cold-storage-access-key": c.AccessKey, "--cold-storage-secret-key-file": c.SecretKeyFile,
	} {
		if value != "" && len(faults) == 0 {
			faults = append(faults, fmt.Errorf("%s is for --cold-storage s3://bucket/prefix", flag))
		}
	}
	return p, errors.Join(faults...)
}

// bucket reads s3://bucket/prefix?region=…&endpoint=…&path-style=… and what the
// other flags and the environment add.
func (c *Config) bucket() (s3.Options, error) {
	u, err := url.Parse(c.Location)
	if err != nil || u.Opaque != "" || u.Fragment != "" || u.Port() != "" {
		return s3.Options{}, errors.New("--cold-storage: expected s3://bucket/prefix?region=…&endpoint=…&path-style=true")
	}
	if u.User != nil {
		return s3.Options{}, errors.New("--cold-storage has a key in it, which everybody can read who sees the process: expected --cold-storage-access-key and --cold-storage-secret-key-file, or the environment")
	}
	var faults []error
	o := s3.Options{Bucket: u.Host, Keys: s3.Keys{Access: c.AccessKey}}
	if !buckets.MatchString(o.Bucket) {
		faults = append(faults, fmt.Errorf("--cold-storage: bucket %q, expected 3 to 63 lower case letters, digits, dots and hyphens", o.Bucket))
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		o.Prefix = prefix + "/"
		if err := blob.CheckName(prefix); err != nil || len(o.Prefix) > 512 {
			faults = append(faults, fmt.Errorf("--cold-storage: prefix %q, expected at most 511 letters, digits, '-', '_', '.' and single slashes", prefix))
		}
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		faults = append(faults, errors.New("--cold-storage: what follows the question mark is no list of parameters"))
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if err := c.parameter(&o, name, parameters[name]); err != nil {
			faults = append(faults, err)
		}
	}
	faults = append(faults, either("endpoint", &o.Endpoint, c.Endpoint), either("region", &o.Region, c.Region))
	if (c.AccessKey == "") != (c.SecretKeyFile == "") {
		faults = append(faults, errors.New("--cold-storage-access-key and --cold-storage-secret-key-file must be given together"))
	}
	if o.Keys.Secret, err = c.secret(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, fromEnvironment(&o))
	if o.Authorities, err = s3.Authorities(); err != nil {
		faults = append(faults, fmt.Errorf("--cold-storage: %w", err))
	}
	if err := errors.Join(faults...); err != nil {
		return s3.Options{}, err
	}
	return o, nil
}

func (c *Config) parameter(o *s3.Options, name string, values []string) error {
	if len(values) != 1 || values[0] == "" {
		return fmt.Errorf("--cold-storage: parameter %s, expected one value", name)
	}
	switch name {
	case "region":
		o.Region = values[0]
	case "endpoint":
		o.Endpoint = values[0]
	case "path-style":
		byPath, err := strconv.ParseBool(values[0])
		if err != nil {
			return errors.New("--cold-storage: path-style, expected true or false")
		}
		o.Style = s3.HostStyle
		if byPath {
			o.Style = s3.PathStyle
		}
	default:
		return fmt.Errorf("--cold-storage: there is no parameter %q, expected region, endpoint or path-style", name)
	}
	return nil
}

// either takes what the flag says, which must not contradict the location.
func either(what string, value *string, flag string) error {
	if *value != "" && flag != "" && *value != flag {
		return fmt.Errorf("--cold-storage-%s and the %s in --cold-storage differ, expected one of them", what, what)
	}
	if flag != "" {
		*value = flag
	}
	return nil
}

func fromEnvironment(o *s3.Options) error {
	from := ""
	if o.Region == "" || o.Endpoint == "" {
		region, endpoint, err := s3.Environment()
		if err != nil {
			return fmt.Errorf("--cold-storage: %w", err)
		}
		if o.Region == "" {
			o.Region = region
		}
		if o.Endpoint == "" && endpoint != "" {
			o.Endpoint, from = endpoint, " (of the AWS environment)"
		}
	}
	if o.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.User != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--cold-storage-endpoint%s: expected http://host:port or https://host:port", from)
	}
	return nil
}
