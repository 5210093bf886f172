// Package life starts, runs and stops the parts of a process.
//
// Resources go on a [Closer] as they are acquired and are released in reverse.
// What runs is a member of a [Group]: the first that fails stops the rest, and
// Wait returns when all have ended. [SignalContext] ends it all on SIGINT or
// SIGTERM.
package life
