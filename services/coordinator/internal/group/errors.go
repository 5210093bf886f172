package group

import "github.com/sluiceio/sluice/services/kit/errs"

// What callers can act on.
var (
	ErrInvalidGroup  = errs.New(errs.InvalidArgument, "INVALID_GROUP", "the group's name is invalid")
	ErrInvalidMember = errs.New(errs.InvalidArgument, "INVALID_MEMBER", "the member's id is invalid")
	ErrInvalidTopics = errs.New(errs.InvalidArgument, "INVALID_TOPICS", "a member subscribes to 1 to 100 topics")
	ErrNoCaller      = errs.New(errs.InvalidArgument, "NO_CALLER", "it is not said on whose behalf the group is used")
	// ErrNotOwner: the group belongs to another key. Nothing is told of it.
	ErrNotOwner = errs.New(errs.PermissionDenied, "GROUP_OF_ANOTHER_KEY", "the group belongs to another key")
	// ErrNotMembersKey: another key made the member.
	ErrNotMembersKey = errs.New(errs.PermissionDenied, "MEMBER_OF_ANOTHER_KEY", "the member belongs to another key")
	ErrUnknownGroup  = errs.New(errs.NotFound, "GROUP_NOT_FOUND", "the group does not exist")
	// ErrGroupNotEmpty: members have to leave first.
	ErrGroupNotEmpty = errs.New(errs.Aborted, "GROUP_NOT_EMPTY", "the group has members")
	ErrUnknownMember = errs.New(errs.NotFound, "UNKNOWN_MEMBER", "the group has no such member")
	// ErrStaleMember: the member works on an assignment that is over.
	ErrStaleMember = errs.New(errs.Aborted, "STALE_MEMBER", "the assignment is not the member's any more")
	// ErrTooManyGroups: there is no room for a new group.
	ErrTooManyGroups = errs.New(errs.FailedPrecondition, "TOO_MANY_GROUPS", "there are as many groups as there may be")
	ErrGroupFull     = errs.New(errs.FailedPrecondition, "GROUP_FULL", "the group has as many members as it may have")
)
