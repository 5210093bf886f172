package registry

import (
	"fmt"

	"github.com/spf13/pflag"
)

// The modes of authentication.
const (
	// AuthOff takes every caller for an administrator.
	AuthOff = "off"
	// AuthRequired asks every caller for a key.
	AuthRequired = "required"
)

// Config is the configuration of the registry.
type Config struct {
	// Auth is AuthOff, the default, or AuthRequired, which this version refuses:
	// it has no keys, and a server that looked protected would not be.
	Auth string
}

// RegisterFlags adds the flags of the service and sets the defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Auth, "auth", AuthOff, "whether callers need a key: off (every caller is an administrator) or required")
}

// Validate reports what is wrong with the configuration.
func (c *Config) Validate() error {
	switch c.Auth {
	case AuthOff:
		return nil
	case AuthRequired:
		return fmt.Errorf("--auth %s is not supported by this version, which has no keys yet; use --auth %s on a loopback address", AuthRequired, AuthOff)
	default:
		return fmt.Errorf("--auth must be %s or %s, got %q", AuthOff, AuthRequired, c.Auth)
	}
}
