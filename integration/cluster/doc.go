// Package cluster runs Sluice servers for tests, behind one interface: as a
// process that can be killed, within the test, and as a cluster of separate services
// beside an etcd.
package cluster
