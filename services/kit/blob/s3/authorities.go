package s3

import (
	"crypto/x509"
	"fmt"
	"os"
)

// caBundle names the file that Amazon's tools take the authorities of a server's
// certificate from.
const caBundle = "AWS_CA_BUNDLE"

// Authorities are those that Amazon's tools check the certificate of a server
// against: of the file that AWS_CA_BUNDLE names, or else ca_bundle in the profile of
// ~/.aws/config. They are in the place of the machine's. nil is the machine's, if
// neither is given.
func Authorities() (*x509.CertPool, error) {
	name, from := os.Getenv(caBundle), caBundle
	if name == "" {
		profile, err := profile()
		if err != nil || profile == nil {
			return nil, err
		}
		if name = profile.Key("ca_bundle").String(); name == "" {
			return nil, nil
		}
		from = "ca_bundle of the AWS profile"
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: there is no certificate in %s, expected a PEM file with those of authorities", from, name)
	}
	return authorities, nil
}
