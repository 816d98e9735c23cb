// Package fakeserver is an MCP server that fails in every way that real servers do. Test
// binaries play it: package mcptest starts them.
//
// # Behaviour
//
// Flags say which things the server offers and how it fails; see options. The environment of the
// test does not reach it. A tool's name says what the tool does; see behaviours. A process
// that the server leaves behind on purpose ends after -lifetime.
//
// # Bytes
//
// The server writes most messages as text, so that a test can ask for bytes that no
// encoder would write.
package fakeserver

import "os"

// marker, as the first argument, makes a test binary play the fake server.
const marker = "mcptest-server"

// ServeIfAsked plays the fake server and exits if this process was started by [Command].
// Otherwise it does nothing.
func ServeIfAsked() {
	if len(os.Args) > 1 && os.Args[1] == marker {
		serve(os.Args[2:])
	}
}

// Command returns the command and the arguments that start this program as the fake server
// with the flags. The program must call [ServeIfAsked] first.
func Command(flags ...string) (command string, args []string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self, append([]string{marker}, flags...)
}
