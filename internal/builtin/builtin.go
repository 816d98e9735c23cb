// Package builtin has the bundled MCP servers, so that a first .mcp.json works without
// any other program.
//
// The router treats them like other servers: "metarouter builtin NAME" speaks MCP on stdin
// and stdout, and the router starts it as a child process. Every tool only reads, gives the
// same answer for the same arguments, rejects arguments that its schema does not have, and
// answers with an object as structuredContent and with the same JSON as text. A failure is
// a tool error (isError) with advice.
package builtin

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Names returns the names that [New] knows, sorted.
func Names() []string { return []string{"files", "utilities"} }

// New returns the bundled server of that name, ready for its Run method. Only
// "files" takes an argument: its root folder, by default the working directory.
func New(name string, args []string) (*mcp.Server, error) {
	switch {
	case name == "utilities" && len(args) == 0:
		return newUtilities(), nil
	case name == "utilities":
		return nil, fmt.Errorf("utilities takes no arguments, got %q", args)
	case name == "files" && len(args) == 0:
		return newFiles(".")
	case name == "files" && len(args) == 1:
		return newFiles(args[0])
	case name == "files":
		return nil, fmt.Errorf("files takes one root folder, got %q", args)
	}
	return nil, fmt.Errorf("unknown bundled server %q; known are: %s", name, strings.Join(Names(), ", "))
}

func newServer(name, title, instructions string) *mcp.Server {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return mcp.NewServer(
		&mcp.Implementation{Name: "metarouter-" + name, Title: title, Version: version},
		&mcp.ServerOptions{
			Instructions: instructions,
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list never changes
		})
}

// readOnly defines a tool that only reads data on this machine. The schemas are literals,
// because models see their order, defaults and limits.
func readOnly(name, title, description, input, output string) *mcp.Tool {
	return &mcp.Tool{
		Name: name, Title: title, Description: description, InputSchema: json.RawMessage(input), OutputSchema: json.RawMessage(output),
		Annotations: &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: new(false), OpenWorldHint: new(false)},
	}
}
