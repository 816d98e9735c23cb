package registry_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/registry"
)

// The catalog of a router is a [registry.Snapshot].
func ExampleSnapshot() {
	r := registry.New()
	_, err := r.Replace("files", registry.Offer{Tools: []registry.NormalizedTool{{
		ID: "files:read_file", Server: "files", Name: "read_file", Description: "Reads a file.",
		Capabilities: []string{"filesystem"}, Hints: registry.Hints{ReadOnly: new(true)},
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}}})
	if err != nil {
		panic(err)
	}
	catalog := r.Snapshot()
	for _, t := range catalog.FindByCapability("filesystem") {
		fmt.Println(t.ID, t.Reads())
	}
	_, ok := catalog.Tool("files:write_file")
	fmt.Println(ok)
	// Output:
	// files:read_file true
	// false
}
