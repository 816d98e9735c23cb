package selector_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A selector finds the tool for a task in the user's words.
func ExampleSelector_Select() {
	r := registry.New()
	var tools []registry.NormalizedTool
	for name, description := range map[string]string{
		"read_file":    "Reads the contents of a file.",
		"send_message": "Sends a message to a channel.",
	} {
		tools = append(tools, registry.NormalizedTool{
			ID: "s:" + name, Server: "s", Name: name, Description: description, InputSchema: json.RawMessage(`{"type":"object"}`),
		})
	}
	if _, err := r.Replace("s", registry.Offer{Tools: tools}); err != nil {
		panic(err)
	}
	s := selector.New(r, selector.Options{})
	defer s.Close()
	selection, err := s.Select(context.Background(), selector.Query{Task: "send a message to the channel"})
	if err != nil {
		panic(err)
	}
	fmt.Println(selection.Tool.ID, selection.Sure, selection.By)
	// Output: s:send_message true ranking
}
