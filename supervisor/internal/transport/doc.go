// Package transport holds the links to MCP servers: [Lines] over the pipes of a
// process, [Streamable] over streamable HTTP in both eras, and [SSE] over the HTTP
// transport of revision 2024-11-05.
//
// A link sends messages as [peer.Link] says, and hands the messages of the server to
// its [peer.Conn]. A message that it can't send it reports to the Conn as the reply to the
// request. A link runs its goroutines with [peer.Conn.Go], so that the session is
// over only when they have returned; [Lines] has two that its user runs.
//
// A [Site] is the address of a remote server and the HTTP client for it. Its errors
// say by their type which fault occurred: [*NeedsAuthError], [*RedirectError],
// [*StatusError], [ErrURL].
//
// The package imports package peer, and no other package of the supervisor but
// internal/signal.
package transport
