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
//	MCP client A ──▶ process A (Client) ─┐ join: the terms; then stdin, stdout,
//	MCP client B ──▶ process B (Client) ─┤ stderr and the journal's memory
//	                                     ▼
//	        ┌── lock ──┐        socket: host (Host) ──▶ MCP servers
//	        who looks for                │
//	        a host and starts one        │ reads and writes the clients' own pipes
//	MCP client A ◀───────────────────────┤
//	MCP client B ◀───────────────────────┘
//
// A process looks, under a lock, for the socket of a host with the same [Terms]:
// hashes of everything that decides which servers run and how. If no host agrees, it
// makes a socket, starts the program again with the socket as a file, and joins that
// host. Then it hands over its three streams, a piece of memory and a pipe (SCM_RIGHTS) and
// waits, so that there is no further hop between client and router. After that, few
// words go over the connection: "leave" and "reload" to the host, "bye" from it.
//
// The last client's process waits until the host has ended, so that a program that
// waits for the process waits for the MCP servers too. If that process was killed, the
// host ends soon. The last process to end removes the lock's file and the folder of
// the sockets ([Place]).
//
// # The journal
//
// A host may be killed while it serves. Then the clients' processes look for another
// one, or serve their clients themselves, and go on where it was: what they need is in
// the [Journal], in the memory that they handed over:
//
//	┌─────────────────────┬──────────────────┬───────┬──────┬───────────────────┐
//	│ ids of open requests│ unread input, in │ tails │ stage│ kept messages, in │
//	│ (slots)             │ one of two halves│       │      │ one of two copies │
//	└─────────────────────┴──────────────────┴───────┴──────┴───────────────────┘
//
// The next router answers the open requests with an error, replays the kept messages
// (initialize, log level, subscriptions) and reads on from the unread input. A request
// that was read but not begun is begun then; no request is carried out twice. Input is
// read into the stage, so that it is in the journal before its length is known.
// Answers go to the client through a stage, a pipe that the client's process hands over
// too: see [Journal.Write]. So no request is answered twice either, but on other systems
// than Linux, where an answer that is just being written may come twice.
// Package server sees only the interface server.Journal.
package daemon
