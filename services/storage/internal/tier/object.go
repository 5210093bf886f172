package tier

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Object names an object of a partition. No two uploads have the same.
type Object struct {
	// Base is the offset of its first batch.
	Base int64
	// Term is that of the leader that uploads it.
	Term uint64
	// Nonce tells the tries of a term apart. It is random.
	Nonce uint64
}

// TopicPrefix is what the names of a topic's objects begin with.
func TopicPrefix(topic uuid.UUID) string { return topic.String() + "/" }

// Prefix is what the names of a partition's objects begin with, of a lineage.
func Prefix(topic uuid.UUID, partition int32, lineage uint64) string {
	return fmt.Sprintf("%s%d/%016x/", TopicPrefix(topic), partition, lineage)
}

// Name is the object's name in the store, under the partition's prefix. It must
// not change.
func (o Object) Name(prefix string) string {
	return fmt.Sprintf("%s%020d-%d-%016x.segment", prefix, o.Base, o.Term, o.Nonce)
}

var objectName = regexp.MustCompile(`^([0-9]{20})-([1-9][0-9]{0,9})-([0-9a-f]{16})\.segment$`)

// ParseName reads the name of an object without its prefix. It is false for one
// that no partition gives.
func ParseName(name string) (Object, bool) {
	parts := objectName.FindStringSubmatch(name)
	if parts == nil {
		return Object{}, false
	}
	base, baseErr := strconv.ParseInt(parts[1], 10, 64)
	term, termErr := strconv.ParseUint(parts[2], 10, 64)
	nonce, nonceErr := strconv.ParseUint(parts[3], 16, 64)
	if baseErr != nil || termErr != nil || nonceErr != nil {
		return Object{}, false
	}
	return Object{Base: base, Term: term, Nonce: nonce}, true
}

func (o Object) valid() bool { return o.Base >= 0 && o.Term > 0 }

// Encode is the object as commands and states have it.
func (o Object) Encode() *persistv1.ColdObject {
	return &persistv1.ColdObject{BaseOffset: o.Base, Term: o.Term, Nonce: o.Nonce}
}

func decodeObject(p *persistv1.ColdObject) Object {
	return Object{Base: p.GetBaseOffset(), Term: p.GetTerm(), Nonce: p.GetNonce()}
}
