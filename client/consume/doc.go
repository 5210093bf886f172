// Package consume consumes records, alone or as a member of a group.
package consume
