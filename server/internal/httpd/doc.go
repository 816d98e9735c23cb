// Package httpd serves MCP over HTTP, by a chain of steps, each with one task:
//
//	ServeHTTP    request.go    begins, ends and counts a request
//	pass         chain.go      the steps below, in their order; records refusals
//	addresses    chain.go      host and origin
//	open         open.go       open to anyone: /health, metadata, preflights
//	identify     chain.go      who sends it, and how many requests a client may make
//	browse       chain.go      logins, here and at remote servers
//	authorize    chain.go      may the client use the route?
//	route        endpoints.go  the route
//	  ├─ /mcp            streamable: both eras, sessions, streams of events
//	  ├─ /mcp            plain: JSON-RPC without sessions and streams
//	  ├─ /mcp/<method>   plain: REST style
//	  ├─ /mcp/p/NAME     the same three, for the clients of a profile
//	  ├─ /mcp/s/NAME     the same three, with one server alone, as itself
//	  ├─ /v1/mesh_scan   info
//	  └─ anything else   page, behind a login for browsers
//
// A [request], in the context, has its state; all write to a [response]. A
// stream keeps the messages for one client until a connection follows it, and for a
// while longer, so that a client that was cut off can resume it. A session is one of
// the legacy era. work counts the requests that run, so that Close can wait for it.
package httpd
