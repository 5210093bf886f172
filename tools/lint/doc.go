// Package lint has tests over the source of the whole workspace: the rules of
// docs/architecture.md that no compiler holds.
//
// "go test" remembers that they passed by the files of this module only, so
// "make lint" runs them anew.
package lint
