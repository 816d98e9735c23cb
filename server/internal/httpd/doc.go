// Package httpd serves MCP over HTTP.
//
//	Handler.ServeHTTP: host, origin, rate, token
//	  ├─ /mcp            streamable: both eras, sessions, streams of events
//	  ├─ /mcp            plain: JSON-RPC without sessions and streams
//	  ├─ /mcp/<method>   plain: REST style
//	  ├─ /mcp/p/NAME     the same three, for the clients of a profile
//	  ├─ /health, /v1/mesh_scan   info
//	  └─ anything else   pages, behind a login for browsers
//
// An [exchange] is one HTTP request and its response: it reads, refuses and writes. A
// stream keeps the messages for one client until a connection follows it, and for a
// while longer, so that a client that was cut off can resume it. A session is one of
// the legacy era. work counts what runs, so that Close can wait for it.
//
// Of the packages in server/internal, it imports conversation and catalog only.
package httpd
