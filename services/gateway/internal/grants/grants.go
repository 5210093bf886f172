// Package grants says what a caller may do. It is a pure function of the
// principal that the registry returned.
package grants

import (
	"strings"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// ErrDenied is that the caller was not granted what it asks for. It never tells
// whether the topic exists.
var ErrDenied = errs.New(errs.PermissionDenied, "NOT_GRANTED", "not granted")

// internalPrefix begins the names of the system's own topics.
const internalPrefix = "__"

// A Caller is who asks.
type Caller struct {
	principal *registryv1.Principal
}

// CallerOf returns the caller that a principal is. Nil is granted nothing.
func CallerOf(p *registryv1.Principal) Caller { return Caller{p} }

// ID returns the caller's key id, or "anonymous".
func (c Caller) ID() string { return c.principal.GetId() }

// ProduceBytesPerSec is how many bytes the caller may write in a second; 0 is
// without limit.
func (c Caller) ProduceBytesPerSec() int64 { return c.principal.GetProduceBytesPerSec() }

// ConsumeBytesPerSec is how many bytes the caller may read in a second; 0 is
// without limit.
func (c Caller) ConsumeBytesPerSec() int64 { return c.principal.GetConsumeBytesPerSec() }

// May says whether the caller may do an action on a topic. Administration is of
// the cluster, not of topics: see Admin. No prefix covers the system's own topics,
// whatever it is; for administrators, too, they are absent, but that is not
// decided here.
func (c Caller) May(action registryv1.Action, topic string) bool {
	if c.principal.GetAdmin() {
		return true
	}
	if strings.HasPrefix(topic, internalPrefix) {
		return false
	}
	for _, g := range c.principal.GetGrants() {
		if g.GetAction() >= action && covers(g.GetTopicPrefix(), topic) {
			return true
		}
	}
	return false
}

// Check returns ErrDenied unless the caller may do an action on a topic.
func (c Caller) Check(action registryv1.Action, topic string) error {
	if c.May(action, topic) {
		return nil
	}
	return ErrDenied.WithMessage("the key is not granted %s on topic %q", verb(action), topic)
}

// Admin returns ErrDenied unless the caller administers the cluster.
func (c Caller) Admin() error {
	if c.principal.GetAdmin() {
		return nil
	}
	return ErrDenied.WithMessage("the key is not granted admin on *")
}

// covers says whether a prefix covers a topic: the topic of that name and those
// below it, starting at a separator. A prefix that ends in a separator covers
// the names that start with it, "*" covers all, and an empty one none.
func covers(prefix, topic string) bool {
	switch {
	case prefix == "*":
		return true
	case prefix == "" || !strings.HasPrefix(topic, prefix):
		return false
	case len(topic) == len(prefix):
		return true
	default:
		return separator(prefix[len(prefix)-1]) || separator(topic[len(prefix)])
	}
}

func separator(c byte) bool { return c == '.' || c == '-' || c == '_' }

func verb(a registryv1.Action) string {
	return strings.ToLower(strings.TrimPrefix(a.String(), "ACTION_"))
}
