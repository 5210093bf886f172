// Package key has the rules of API keys: what a secret and an id look like, and
// what a key may be given. It is pure but for the randomness of crypto/rand.
//
//	secret   esk_ and 32 random bytes in base64url without padding (47 bytes)
//	key id   key_ and 12 hex digits
//
// Of a secret only the SHA-256 is kept. A plain hash is enough: a secret has 256
// random bits, so nobody finds one by trying, however fast the hash is.
package key

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// The forms of secrets and ids. Clients keep them, so they never change.
const (
	secretPrefix = "esk_"
	idPrefix     = "key_"
	secretBytes  = 32
	idBytes      = 6
)

// Hash is the SHA-256 of a secret.
type Hash [sha256.Size]byte

// HashOf returns the hash under which a secret is known.
func HashOf(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// NewSecret returns a secret that nobody has.
func NewSecret() string {
	var random [secretBytes]byte
	// Read never fails; it ends the process where the system has no randomness.
	_, _ = rand.Read(random[:])
	return secretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// IsSecret says whether a text has the form of a secret.
func IsSecret(text string) bool {
	rest, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return false
	}
	random, err := base64.RawURLEncoding.DecodeString(rest)
	return err == nil && len(random) == secretBytes
}

func newID() string {
	var random [idBytes]byte
	_, _ = rand.Read(random[:])
	return idPrefix + hex.EncodeToString(random[:])
}
