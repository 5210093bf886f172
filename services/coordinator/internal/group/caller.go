package group

import (
	"unicode/utf8"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
)

const (
	// MaxName limits a group's name, in bytes.
	MaxName = 1024
	// maxMemberID limits a member's id, in bytes.
	maxMemberID = 200
)

// CheckName refuses what is no name of a group.
func CheckName(group string) error {
	if group == "" || len(group) > MaxName || !utf8.ValidString(group) {
		return ErrInvalidGroup.WithMessage("a group's name is UTF-8 of 1 to %d bytes", MaxName)
	}
	return nil
}

func checkMemberID(id string) error {
	if id == "" || len(id) > maxMemberID || !utf8.ValidString(id) {
		return ErrInvalidMember.WithMessage("a member's id is UTF-8 of 1 to %d bytes", maxMemberID)
	}
	return nil
}

// Caller is on whose behalf a group is used.
type Caller struct {
	// Owner is the id of the key; never empty.
	Owner string
	// Admin may use every group.
	Admin bool
}

// CallerOf reads a caller from a message. ErrNoCaller.
func CallerOf(c *coordinatorv1.Caller) (Caller, error) {
	if c.GetOwner() == "" {
		return Caller{}, ErrNoCaller
	}
	return Caller{Owner: c.GetOwner(), Admin: c.GetAdmin()}, nil
}

// is says whether the caller may use what belongs to an owner; what is nobody's
// is everybody's.
func (c Caller) is(owner string) bool { return c.Admin || owner == "" || owner == c.Owner }
