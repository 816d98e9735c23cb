// Command chaos puts routers under load while everything around them goes wrong,
// and holds them to what they promise: every call gets exactly one answer, the
// right one or an error that says which server failed and why; and afterwards
// descriptors, processes and memory are what they were, and no process, socket or
// temporary file is left.
//
//	go run ./internal/chaos -for 60s
//	go run ./internal/chaos -for 30m -plot soak.svg -report soak.md
//	go run ./internal/chaos -for 60s -faults none          # load alone
//	go run ./internal/chaos -for 60s -faults all,router    # and kill routers
//
// A run has a folder of its own, with copies of the router and of this program,
// which plays the servers. So whatever belongs to the run, however it was started
// and whoever its parent is, is known by where its executable lies.
//
// It exits with status 1 if anything was not as promised, and keeps the folder
// then. Faults come in an order that -seed determines; what they meet is not
// determined. It runs on Linux only.
package main
