// Command servers is an MCP server with three tools, as an example of how to write one with the
// Go SDK: search_files, doc_summarize and pii_redact. It speaks MCP on stdin and stdout.
//
//	go run ./examples/servers [ROOT]
//
// ROOT is the folder that search_files searches, by default the working directory. In .mcp.json:
//
//	"texts": { "command": "go", "args": ["run", "./examples/servers", "."] }
//
// What makes a server good for models and for routers: each tool says that it only reads; its
// schemas have a description, a default and limits for each argument, and allow no others; it
// gives the same answer for the same arguments, as structuredContent and as text; and a failure is
// a tool error that says what to do.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err) // stdout belongs to the protocol
		os.Exit(1)
	}
}

// run serves one client, until it closes stdin.
func run(ctx context.Context, args []string) error {
	root := "."
	switch len(args) {
	case 0:
	case 1:
		root = args[0]
	default:
		return fmt.Errorf("give one root folder, not %q", args)
	}
	server, err := newServer(root)
	if err != nil {
		return err
	}
	return server.Run(ctx, &mcp.StdioTransport{})
}

// newServer returns the server with its tools.
func newServer(root string) (*mcp.Server, error) {
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open root folder: %w", err)
	}
	s := mcp.NewServer(
		&mcp.Implementation{Name: "example-servers", Title: "Texts and files", Version: "1.0.0"},
		&mcp.ServerOptions{
			Instructions: "Search the files of one folder, summarize texts and redact personal data. Nothing leaves this machine.",
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list never changes
		})
	mcp.AddTool(s, searchFilesTool, folder{opened}.searchFiles)
	mcp.AddTool(s, docSummarizeTool, docSummarize)
	mcp.AddTool(s, piiRedactTool, piiRedact)
	return s, nil
}

// readOnly defines a tool that only reads data on this machine. The schemas are literals,
// because models see their order, defaults and limits.
func readOnly(name, title, description, input, output string) *mcp.Tool {
	return &mcp.Tool{
		Name:         name,
		Title:        title,
		Description:  description,
		InputSchema:  json.RawMessage(input),
		OutputSchema: json.RawMessage(output),
		Annotations: &mcp.ToolAnnotations{
			Title:           title,
			ReadOnlyHint:    true,
			IdempotentHint:  true,
			DestructiveHint: new(false),
			OpenWorldHint:   new(false),
		},
	}
}
