// Package peer is the session with one MCP server, whatever link its messages take:
// requests and their answers, cancellation, progress, the requests of the server to
// its client, subscriptions, and the two eras of the protocol.
//
// # Types
//
// A [Conn] is JSON-RPC over a [Link]: it matches answers to requests ([Calls]),
// bounds and counts messages that the server sends by itself ([Budget]), has an outbox for messages that no caller
// waits for, and ends once, with one cause. A [Peer] is a
// Conn that speaks MCP: it adds the handshake ([Peer.Handshake]), the requests of
// the server ([Questions]), [Subscriptions] and repeated rounds for input. It
// implements [session.Session].
//
// # A call
//
// [Peer.Call] begins a request, which stamps it with the _meta of the server's era
// and gives it to the Link, and waits for the answer, the end of its context or the
// end of the session. The Link's reading goroutine hands every message of the server
// to [Conn.Receive], which never blocks.
//
// # Imports
//
// The package knows no process and no transport: package transport imports it.
package peer
