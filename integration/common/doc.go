// Package common tests what the document and its notes promise of a server,
// whatever kind of server it is: the first session, answer for answer, and the
// statuses of what goes wrong.
package common
