// Package process starts the processes of MCP servers, and makes sure that no server
// outlives the router.
//
// # What ends a process
//
// A [Starter] starts each process in a process group of its own. [Process.Stop]
// closes its stdin, waits, sends SIGTERM to the group, waits, and sends SIGKILL.
// When the process has ended, everything that descends from it is killed, whatever
// group, session or environment it has, except programs that were opened for the user by way of
// [Open]. Before that, the process's [Container] is stopped.
//
// # The process guard
//
// The process guard, which is this binary started again, starts the processes, is
// their parent, and kills the processes that they leave. When the router ends, however it ends, the
// guard kills all that is left: see [RunGuard]. On Linux the kernel keeps every
// descendant below the guard (PR_SET_CHILD_SUBREAPER). Elsewhere a random mark in the
// environment finds those that have left their group. If no guard runs, the router
// itself is the parent. On Windows the kernel does all of this with job objects.
//
// # What else is here
//
// [Find] finds executables, [Environment] makes a server's environment, [Tail]
// and [LogFile] keep its stderr.
//
// The package knows nothing of MCP.
package process
