// Package process starts the processes of MCP servers, and makes sure that none
// of them outlives the router.
//
// # What ends a process
//
// A [Starter] starts each process in a process group of its own. [Process.Stop]
// closes its stdin, waits, sends SIGTERM to the group, waits, and sends SIGKILL.
// What the process has started and what left its group, as browsers and daemons
// do, is found by a random mark in its environment and killed when the process has
// ended (see descendants_unix.go).
//
// # When the router is killed
//
// The process guard, which is this binary started again, watches a pipe from the
// router. When the pipe closes, the guard kills every registered group and every
// process that carries the router's mark: see [RunGuard]. On Linux a child is known
// to the guard before it executes; elsewhere it starts as an exec shim, which waits
// until its group is registered: see [ExecShim]. On Windows the kernel does all of
// this with job objects.
//
// # What else is here
//
// [Finder] finds executables, [Environment] makes a server's environment, [Tail]
// and [LogFile] keep what it prints on stderr.
//
// The package knows nothing of MCP. It imports no other package of the supervisor
// but internal/signal.
package process
