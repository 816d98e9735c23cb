// Command chaos puts routers under load while everything around them fails, and checks what they
// promise: every call gets exactly one answer, the right one or an error that names the server
// and the reason. Afterwards the numbers of descriptors and processes and the memory are as
// before, and no process, socket or temporary file remains.
//
//	go run ./test/chaos -for 60s
//	go run ./test/chaos -for 30m -plot soak.svg -report soak.md
//	go run ./test/chaos -for 60s -faults none          # load alone
//	go run ./test/chaos -for 60s -faults all,router    # and kill routers
//
// A run has its own folder with copies of the router and of this program, which plays the servers.
// A process belongs to the run if its executable is in that folder, whatever its parent is.
//
// The exit status is 1 if a check failed; then the folder is kept. -seed determines the order of
// the faults, but not what they hit. The program runs on Linux only.
package main
