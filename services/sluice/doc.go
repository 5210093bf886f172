// Package sluice is a node: one process that runs some or all of the services.
//
//	          ┌─ gateway ─────────── doors: HTTP/JSON, gRPC
//	calls     ├─ registry
//	through   ├─ coordinator ──────┐
//	rpc.Local ├─ presence ─────────┤ the node's row, under a lease
//	          ├─ internal gRPC     │ for other nodes; none with the embedded etcd
//	          ├─ storage           │
//	          └─ etcd ◄────────────┘ embedded, or a client of --etcd-endpoints
//
// Parts start from the bottom and stop from the top. The services of one node
// call each other in process; those of others over TCP.
package sluice
