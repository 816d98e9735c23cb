package fakeserver

import "net/http"

// Handler returns the server as a handler of streamable HTTP, for tests that need to put
// something in front of it. flags are the flags of [Command], without -http and -sse.
func Handler(flags ...string) http.Handler {
	return http.HandlerFunc((&web{server: newServer(parseOptions(systemProcess(), flags)), sessions: map[string]*session{}}).streamable)
}
