package mux_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/providers/mux"
	"github.com/mcp-metarouter/metarouter/providers/openai"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The program in docs/go.md; see TestReadme.

type text struct { // the schema of the arguments is made of it
	Text string `json:"text" jsonschema:"whose words are counted"`
}

func countWords(_ context.Context, in text) (int, error) { return len(strings.Fields(in.Text)), nil }

func readme() {
	options := adapter.Embed(adapter.Options{}) // first of all: servers end with the program even if it is killed
	ctx := context.Background()
	router, err := adapter.Open(ctx, options, ".mcp.json") // MCP servers
	check(err)
	own := functions.New("own", functions.Options{}) // Go functions
	check(functions.Add(own, functions.Function{
		Name: "count_words", Description: "Count the words of a text.", Hints: registry.Hints{ReadOnly: new(true)},
	}, countWords))
	ai, err := openai.New("ai", openai.Options{BaseURL: os.Getenv("OPENAI_BASE_URL")}) // models
	check(err)
	all, err := mux.New("all", router, own, ai) // all as one
	check(err)
	defer all.Close()
	router.Settled(ctx) // until the servers have said what they offer

	request := selector.RouteRequest{
		Query:     selector.Query{Task: "How many words are in this text?"},
		Call:      selector.Call{Arguments: json.RawMessage(`{"text": "to be or not to be"}`)},
		Threshold: 0.5, // only select, if no tool is likely enough or safe to run
	}
	routed, err := selector.Route(ctx, all, request)
	check(err)
	fmt.Println(adapter.Why(ctx, all, request.Query, routed.Selection))
	if routed.Ran {
		fmt.Println(routed.Result.Text())
	}
}

// The program ends here.

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The program of docs/go.md is the one above, with the same output.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../../docs/go.md")
	expect.OK(t, err)
	source, err := os.ReadFile("readme_test.go")
	expect.OK(t, err)
	_, section, _ := strings.Cut(string(page), "\n```go\n")
	program, section, _ := strings.Cut(section, "```\n")
	_, section, _ = strings.Cut(section, "```\n")
	output, _, _ := strings.Cut(section, "```\n")
	if want := strings.ReplaceAll(program, "func main() {", "func readme() {"); program == "" || !strings.Contains(string(source), want) {
		t.Errorf("not in this file:\n%s", want)
	}

	ai := httptest.NewServer(http.NotFoundHandler()) // without models, so that confidences are always the same
	defer ai.Close()
	t.Setenv("OPENAI_BASE_URL", ai.URL+"/v1")
	t.Chdir(t.TempDir())
	expect.OK(t, os.WriteFile(".mcp.json", []byte(`{"mcpServers": {"utilities": {"command": "metarouter", "args": ["builtin", "utilities"]}}}`), 0o600))
	expect.Equal(t, printed(t, readme), output, "the example of docs/go.md prints")
}

// printed returns the output of f.
func printed(t *testing.T, f func()) string {
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	f()
	os.Stdout = stdout
	w.Close()
	b, err := io.ReadAll(r)
	expect.OK(t, err)
	return string(b)
}
