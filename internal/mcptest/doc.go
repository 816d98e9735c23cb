// Package mcptest is the test equipment: MCP servers that fail in every way that
// real ones do, the real ones themselves, and a plain client to compare with.
//
// A test binary plays the fake server. Its TestMain is one line,
//
//	func TestMain(m *testing.M) { mcptest.Main(m) }
//
// and Command gives the command and the arguments that make the same binary run
// as the server: the behaviour is asked for by flags (see options), since a
// server is not given the environment of whoever starts it. Whatever a fake
// server leaves behind on purpose ends by itself after its -lifetime.
//
// Remote starts the same server behind HTTP, with sessions, without them or with
// the stream of 2024-11-05; HTTPClient is the client for the first two, SSEClient
// for the last. Conformance runs the official suite, and EverythingServer is the
// server that passes it.
//
// Servers and clients read and write plain messages with encoding/json, and use
// nothing of what they test.
package mcptest

import (
	"os"
	"testing"
)

// marker, as its first argument, makes a test binary play the fake server.
const marker = "mcptest-server"

// Main plays the fake server if this process was started as one, and otherwise
// runs the tests. It does not return.
func Main(m *testing.M) {
	ServeIfAsked()
	os.Exit(m.Run())
}

// ServeIfAsked is for a TestMain that does more than Main: it plays the fake
// server and exits if this process was started as one, else it does nothing.
func ServeIfAsked() {
	if len(os.Args) > 1 && os.Args[1] == marker {
		Serve(os.Args[2:])
	}
}

// Command is what goes into a config to start the fake server with these flags.
// It needs Main or ServeIfAsked in the TestMain of the package under test.
func Command(flags ...string) (command string, args []string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self, append([]string{marker}, flags...)
}
