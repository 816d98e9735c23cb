// Package supervisor keeps the MCP servers of a configuration running, and gives out
// sessions with them.
//
// # Use
//
// A [Supervisor] receives configurations and makes the running servers equal to the
// latest one ([Supervisor.Run]). [Supervisor.Session] returns a session with a server
// and waits while the server starts; [Supervisor.Status] says how all servers are. A
// [Handler] reads a server's offer before its session is used.
//
// When Run returns, no process that it started is left. If the router itself is
// killed, the process guard kills them: see package internal/process.
//
// # The life of a server
//
// Each server has one goroutine. Its function server.run (life.go) is the server's
// life from its first start to its last stop: rest, wait for a call, start (start.go),
// attend, pause. The life owns its state; others meet it in four parts:
//
//   - control holds the requests to the life: an edited entry, a restart, a start.
//   - published holds the parts that others see: the status, and the session that all share.
//   - opener opens sessions: a process or a remote server, its link, the handshake.
//   - pool holds the sessions next to the shared one, for servers that send requests to
//     their clients.
//
// # A call
//
// [Supervisor.Session] takes the shared session from published, or one from pool. Its
// Call is [peer.Peer.Call], which writes one line with transport.Lines.Send and waits.
//
// [Connect] makes the same session over a connection, without process and entry: with a server of another
// node.
//
// # Imports
//
// Imports point one way: supervisor → internal/launch, and
// supervisor → internal/transport → internal/peer. All of them may import
// internal/signal and internal/process; launch imports peer for one type.
package supervisor
