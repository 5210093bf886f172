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
	// Auth is AuthOff, the default, or AuthRequired. All registries of a cluster
	// must have the same.
	Auth string
}

// RegisterFlags adds the flags of the service and sets the defaults.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Auth, "auth", AuthOff, "whether callers need a key: off (every caller is an administrator) or required")
}

// Validate reports what is wrong with the configuration.
func (c *Config) Validate() error {
	if c.Auth != AuthOff && c.Auth != AuthRequired {
		return fmt.Errorf("--auth must be %s or %s, got %q", AuthOff, AuthRequired, c.Auth)
	}
	return nil
}
