// Package daemon joins processes of this program that have the same configuration
// files, over local sockets that only their user can open.
//
// # Commands
//
// A command such as "metarouter tools" asks a running router of the same build: [Routers] finds
// it, and the router answers with [Answer]. A page for people is passed on the same way ([Proxy]). A
// router that serves over HTTP, or one client alone, listens with [Serve].
//
// # One router for many clients
//
// Each MCP client starts a process of its own. These processes share one router, the
// host, which the first of them starts:
//
//	MCP client A ──▶ process A (Joiner, Relay) ──┐ socket
//	                          │ lock             ├──▶ host (Host) ──▶ MCP servers
//	MCP client B ──▶ process B (Joiner, Relay) ──┘
//
// A process looks, under a lock, for the socket of a host with the same [Terms]:
// hashes of everything that decides which servers run and how. If no host agrees, it
// starts the program again with the path of a socket, and waits until that is there.
// Then it sends two HTTP requests. The answer to "GET /log" has the lines of the host's log and
// lasts until the process may end. After "POST /join", the connection carries MCP, one message a
// line. A [Relay] copies the messages. "POST /reload" has the host read its configuration again.
//
// The last client's process waits until the host has ended, so that a program that
// waits for the process waits for the MCP servers too. If that process was killed, the
// host ends soon. The next router removes the sockets of killed ones ([Sockets]).
//
// A host may be killed while it serves. Then the processes of its clients look for another one, or
// serve their clients themselves, and the Relay sends again the messages that the next router needs.
package daemon
