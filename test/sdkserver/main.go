// Sdkserver is an MCP server as most are: made with the official Go SDK, ten tools with
// descriptions and schemas of ordinary length. Comparisons put routers in front of it.
//
//	sdkserver [-tools N] [-http FILE]
//
// Each tool returns the argument text, or a text of as many bytes as the argument bytes says.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

func main() {
	tools := flag.Int("tools", 10, "number of tools")
	file := flag.String("http", "", "serve streamable HTTP instead of stdio, and write the URL to this file")
	flag.Parse()
	s := mcp.NewServer(&mcp.Implementation{Name: "sdkserver", Version: "1.0.0"}, nil)
	for i := range *tools {
		s.AddTool(tool(i), call)
	}
	if *file == "" {
		s.Run(context.Background(), &mcp.StdioTransport{})
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(*file+".new", []byte("http://"+l.Addr().String()+"/mcp"), 0o600)
	}
	if err == nil {
		err = os.Rename(*file+".new", *file) // so that no reader sees half of the URL
	}
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(l, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)))
}

func tool(i int) *mcp.Tool {
	verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
	name := verb + "_" + noun
	if i >= len(verbs)*len(nouns) {
		name += fmt.Sprint("_", i)
	}
	properties := map[string]any{
		"text":  map[string]any{"type": "string", "description": "Free text that is returned unchanged"},
		"bytes": map[string]any{"type": "integer", "description": "Answer with a text of this many bytes"},
	}
	for field, about := range fields[:1+i%len(fields)] {
		properties[fmt.Sprintf("option_%d", field+1)] = map[string]any{"type": "string", "description": about}
	}
	return &mcp.Tool{
		Name: name,
		Description: fmt.Sprintf("%s the %ss of a workspace. Use it when the user asks to %s one or several %ss; the answer names each %s with its identifier, its state and the time of its last change.",
			strings.ToUpper(verb[:1])+verb[1:], noun, verb, noun, noun),
		InputSchema: map[string]any{"type": "object", "properties": properties},
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}
}

var (
	verbs  = strings.Fields("list get create update delete search export archive approve assign")
	nouns  = strings.Fields("issue invoice customer order shipment ticket repository branch release pipeline")
	fields = []string{
		"Identifier of the workspace that holds the records, as shown in the address bar",
		"Opaque cursor returned by the previous call, for paging through long results",
		"Only records changed after this RFC 3339 time",
		"Comma-separated labels, every one of which must match",
		"Shape of the answer: json, markdown or csv",
	}
)

func call(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var a struct {
		Text  string
		Bytes int
	}
	if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
		return nil, err
	}
	if a.Bytes > 0 {
		a.Text = fakeserver.Prose(a.Bytes)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil
}
