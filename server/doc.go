// Package server is the MCP server that clients of a router see: it shows all tools
// of all servers as the tools of one server.
//
// [NewServers] makes a [Server] for each set of profiles that clients have chosen, over the
// [Router] as these clients see it. [Server.Serve] serves one client over a pair
// of streams and [Servers.Handler] any number of clients over HTTP, in both eras of
// the protocol and in plain JSON-RPC, while [Servers.Run] runs. Messages of servers
// and clients leave as the bytes that came.
//
// In direct mode a client sees every tool of every server under its exposed name. In search
// mode it sees five tools that find and run the others, and in code mode two that find them and one that
// runs scripts, which call them.
//
// # Parts
//
// Imports point down; internal/archtest holds the order.
//
//	server         wires the parts; the table of methods; relays prompts, resources
//	  │            and tasks; notifies clients of changes
//	  ├─ stdio     one client over a pair of streams
//	  ├─ httpd     clients over HTTP
//	  ├─ tools     tools/call: tools of servers, and our own
//	  │    └────────────┬──────────────┐
//	  ├─ conversation   one client: its era, open requests, questions to it
//	  ├─ catalog   URIs and lists as clients see them
//	  └─ budget    common bounds of the servers of all profiles
//
// The conversation lies below the transports, and not in this package, so that they
// can use its types while this package wires both.
package server
