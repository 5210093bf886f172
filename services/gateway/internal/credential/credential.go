// Package credential finds the secret that a caller sends.
//
//	Authorization: Bearer esk_…
//	X-Es-Key: esk_…
//
// Either will do. Whoever sends two different keys is refused: something on the
// way has added one, and guessing which is meant would act for the wrong caller.
package credential

import (
	"strings"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// maxSecret is the longest secret that is looked at, as in the binary protocol.
const maxSecret = 1024

// What is wrong with the headers themselves.
var (
	ErrConflict = errs.New(errs.InvalidArgument, "CONFLICTING_KEYS",
		"the Authorization and X-Es-Key headers have different keys; send one")
	ErrMalformed = errs.New(errs.Unauthenticated, "BAD_CREDENTIALS", "the Authorization header must be: Bearer <key>")
)

// Secret returns the secret in the values of both headers; empty when there is
// none. Other schemes than Bearer count only when there is no X-Es-Key: they are
// meant for a proxy.
func Secret(authorization, esKey []string) (string, error) {
	secret := ""
	take := func(s string) error {
		if s = strings.TrimSpace(s); s == "" {
			return nil
		}
		if len(s) > maxSecret {
			return ErrMalformed.WithMessage("the key has more than %d bytes", maxSecret)
		}
		if secret != "" && s != secret {
			return ErrConflict
		}
		secret = s
		return nil
	}
	for _, value := range esKey {
		if err := take(value); err != nil {
			return "", err
		}
	}
	for _, value := range authorization {
		scheme, s, _ := strings.Cut(strings.TrimSpace(value), " ")
		bearer := strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(s) != ""
		if !bearer && secret == "" {
			return "", ErrMalformed
		}
		if bearer {
			if err := take(s); err != nil {
				return "", err
			}
		}
	}
	return secret, nil
}
