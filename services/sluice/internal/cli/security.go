package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// security is how a command shows a server who it is, and has it show that it is
// the right one.
//
// There is no flag for the key itself: what stands on a command line can be read
// by everybody on the machine, and stays in the shell's history.
type security struct {
	keyFile string
	tls     bool
	caFile  string
}

func (s *security) register(command *cobra.Command) {
	flags := command.PersistentFlags()
	flags.StringVar(&s.keyFile, "key-file", os.Getenv("SLUICE_KEY_FILE"),
		"file with the API key to show (SLUICE_KEY_FILE); else SLUICE_KEY has the key itself")
	flags.BoolVar(&s.tls, "tls", false, "talk TLS, and trust whom the system trusts")
	flags.StringVar(&s.caFile, "tls-ca", os.Getenv("SLUICE_TLS_CA"),
		"talk TLS, and trust the certificates in this PEM file instead (SLUICE_TLS_CA)")
}

// dialOptions reads the files that the flags name.
func (s *security) dialOptions() ([]grpc.DialOption, error) {
	transport := insecure.NewCredentials()
	config, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	if key != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(key)))
	}
	return options, nil
}

// tlsConfig returns whom to trust, nil where there is no TLS.
func (s *security) tlsConfig() (*tls.Config, error) {
	if !s.tls && s.caFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.caFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(s.caFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s: there is no certificate in it", s.caFile)
	}
	return config, nil
}

// key returns the API key, empty for none.
func (s *security) key() (string, error) {
	key, from := os.Getenv("SLUICE_KEY"), "SLUICE_KEY"
	if s.keyFile != "" {
		text, err := os.ReadFile(s.keyFile)
		if err != nil {
			return "", fmt.Errorf("--key-file: %w", err)
		}
		key, from = strings.TrimSpace(string(text)), "--key-file "+s.keyFile
		if key == "" {
			return "", fmt.Errorf("%s: it is empty", from)
		}
	}
	// gRPC would refuse it too, and print it.
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: that is no API key", from)
	}
	return key, nil
}

// bearer shows an API key with every call.
type bearer string

var _ credentials.PerRPCCredentials = bearer("")

// GetRequestMetadata returns the header.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity leaves it to the server, which may stand on the same
// machine or behind what ends TLS for it.
func (b bearer) RequireTransportSecurity() bool { return false }
