// Package conversation keeps the state between one client and the router,
// on any transport: which requests are open, which questions the client was asked, which
// era and revision both speak.
//
//	transport (stdio, httpd)          package server: handlers
//	     │ Begin, Receive                    ▲ Method.Handle
//	     ▼                                   │
//	Conversation ── lets in ──▶ Request ── Run
//
// [Clients] holds the conversations of all clients of a router. A transport opens
// one with [Clients.Open] for a client that has a session, or with [Clients.Visit]
// for a request that stands for itself. It hands each message to the conversation.
// A request that is let in becomes a [Request]; its Run calls the handler of the
// method and returns the line to be written.
//
// A legacy server may ask its client something while it works on a request. A
// modern client can't be asked in the middle of a request: its request is answered
// with input_required, and suspended until the client comes back with the answers
// (see suspend.go).
package conversation
