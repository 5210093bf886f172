// Package cluster runs Sluice servers for tests, behind one interface: as a
// process that can be killed, and within the test.
package cluster
