// Package hostile holds the router to its contract while one server or one client does its
// worst: every honest call is answered before its deadline, memory stays bounded, nothing
// crashes, nothing leaks, and the fault is named. It has tests only, which run on Linux, where
// /proc shows what a process uses.
//
//	go test ./test/hostile                           # each case for half a second
//	METAROUTER_HOSTILE=10m go test ./test/hostile    # together for ten minutes
//
// # Servers
//
// TestServers starts a router with an honest server, adds a hostile one to its configuration,
// and calls both. A hostile server over stdio is this test binary, which plays the kind of its
// name; one over HTTP is a handler of the test. The tables of kinds are in the files of the
// subjects, such as schemas_test.go.
//
// # Clients
//
// TestClients attacks a router over HTTP or over stdio while an honest client calls.
//
// # Files
//
// TestFiles runs commands with configuration files that a stranger wrote.
package hostile
