// Package mcptest has MCP clients for tests, and starts the fake server of package
// fakeserver.
//
// # The fake server
//
// A test binary plays the fake server. Its TestMain is one line,
//
//	func TestMain(m *testing.M) { mcptest.Main(m) }
//
// and [Command] returns the command that makes the same binary run as the server. Flags,
// described in package fakeserver, say what it offers and how it fails. [Remote] starts it
// behind HTTP.
//
// # Clients
//
// [Client] speaks over stdio, [HTTPClient] over streamable HTTP and [SSEClient] over HTTP
// with SSE as of 2024-11-05. They return the server's bytes, so that a call through a router
// can be compared with a direct call.
package mcptest

import (
	"os"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

// Main plays the fake server if [Command] started this process, and otherwise runs the
// tests. It does not return.
func Main(m *testing.M) {
	ServeIfAsked()
	os.Exit(m.Run())
}

// ServeIfAsked is for a TestMain that does more than [Main]: it plays the fake server and
// exits if [Command] started this process. Otherwise it does nothing.
//
// The login shell of the programs that the tests start gives no environment, so that they have the one that a test sets.
func ServeIfAsked() {
	fakeserver.ServeIfAsked()
	os.Setenv("SHELL", "/bin/false")
}

// Command returns the command and the arguments that start the fake server with these
// flags. The TestMain of the package under test must call [Main] or [ServeIfAsked].
func Command(flags ...string) (command string, args []string) { return fakeserver.Command(flags...) }
