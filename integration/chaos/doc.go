// Package chaos kills real servers at random moments under writers and checks
// that nothing acknowledged was lost or moved.
//
// A test goes in rounds: start, read back, write from several clients, kill,
// perhaps do to the files what a crash can do, and again. What clients know is in
// a Ledger, whose Check says what contradicts it. CHAOS_TIME says how long a test
// goes on, CHAOS_SEED repeats its random choices (not the moments at which the
// threads of the server are hit).
//
// TestKillServices does so to the processes of a cluster, a few at a time, while
// writers and members of a group go on through both gateways.
//
// kill -9 takes away the process and leaves the page cache: what a power cut
// takes is tested on the crashable file system of kit/vfs.
package chaos
