// Package cluster tests routers that are nodes of a cluster: built programs as real processes, with
// real NATS servers between them, all on this machine. It has tests only, which run on Linux.
//
//	go test ./test/cluster                                          # half a minute of load and faults
//	METAROUTER_CLUSTER=long go test -timeout 30m ./test/cluster     # more faults, each of them longer
//
// # Load and faults
//
// A gateway gets 300 calls a second of the servers of two other nodes. Each call has an id. The
// servers write each execution to a ledger, before it begins and when it ends. Meanwhile processes
// are killed, stopped and cut off. In the end check compares the outcomes of the calls with the
// ledger: see check.
package cluster
