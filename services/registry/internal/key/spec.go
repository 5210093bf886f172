package key

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

const (
	// maxName is the longest name, in characters.
	maxName = 200
	// maxGrants is how many rules a key may have.
	maxGrants = 100
	// maxPrefix is the longest name that a topic can have.
	maxPrefix = 249
	// Everything is the prefix of all topics and of the cluster itself.
	Everything = "*"
)

// ErrInvalid is that a key cannot be made as it was asked for.
var ErrInvalid = errs.New(errs.InvalidArgument, "INVALID_KEY", "invalid key")

// Spec is what somebody wants a key to be.
type Spec struct {
	Name   string
	Grants []*persistv1.KeyGrant
	// Bytes a second; 0 is without limit.
	ProduceBytesPerSec int64
	ConsumeBytesPerSec int64
}

// Validate returns ErrInvalid with what is wrong.
func (s Spec) Validate() error {
	switch n := utf8.RuneCountInString(s.Name); {
	case n == 0:
		return ErrInvalid.WithMessage("name must be given")
	case n > maxName:
		return ErrInvalid.WithMessage("name must have at most %d characters, got %d", maxName, n)
	case !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, unicode.IsControl):
		return ErrInvalid.WithMessage("name must be text without control characters, got %q", s.Name)
	case len(s.Grants) > maxGrants:
		return ErrInvalid.WithMessage("acls must have at most %d rules, got %d", maxGrants, len(s.Grants))
	}
	for i, g := range s.Grants {
		if err := validateGrant(i, g); err != nil {
			return err
		}
	}
	for _, quota := range []struct {
		name  string
		bytes int64
	}{{"produce_bytes_per_sec", s.ProduceBytesPerSec}, {"consume_bytes_per_sec", s.ConsumeBytesPerSec}} {
		if quota.bytes < 0 {
			return ErrInvalid.WithMessage("%s must be more than 0, got %d", quota.name, quota.bytes)
		}
	}
	return nil
}

func validateGrant(i int, g *persistv1.KeyGrant) error {
	switch g.GetAction() {
	case persistv1.KeyAction_KEY_ACTION_READ, persistv1.KeyAction_KEY_ACTION_WRITE, persistv1.KeyAction_KEY_ACTION_ADMIN:
	default:
		return ErrInvalid.WithMessage("acls[%d].action must be read, write or admin", i)
	}
	prefix := g.GetTopicPrefix()
	switch {
	case prefix == Everything:
		return nil
	case prefix == "":
		return ErrInvalid.WithMessage("acls[%d].topic_prefix must not be empty; * is every topic", i)
	case len(prefix) > maxPrefix:
		return ErrInvalid.WithMessage("acls[%d].topic_prefix must have at most %d characters, got %d", i, maxPrefix, len(prefix))
	}
	for _, c := range []byte(prefix) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return ErrInvalid.WithMessage("acls[%d].topic_prefix must be * or letters, digits, '.', '-' and '_', got %q", i, prefix)
		}
	}
	return nil
}

// New returns the row of a new key that has a secret.
func New(s Spec, secret string, now time.Time) *persistv1.KeyRow {
	hash := HashOf(secret)
	return &persistv1.KeyRow{
		KeyId:              newID(),
		Name:               s.Name,
		SecretSha256:       hash[:],
		Grants:             s.Grants,
		ProduceBytesPerSec: s.ProduceBytesPerSec,
		ConsumeBytesPerSec: s.ConsumeBytesPerSec,
		CreatedAtMs:        now.UnixMilli(),
	}
}

// Administers says whether a key may do everything.
func Administers(row *persistv1.KeyRow) bool {
	for _, g := range row.GetGrants() {
		if g.GetAction() == persistv1.KeyAction_KEY_ACTION_ADMIN && g.GetTopicPrefix() == Everything {
			return true
		}
	}
	return false
}
