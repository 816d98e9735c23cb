package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// embedded is what main begins with. The test binary is the router's helper as the
// program is.
var embedded adapter.Options

func TestMain(m *testing.M) {
	embedded = adapter.Embed(adapter.Options{})
	os.Exit(m.Run())
}

// model is an endpoint of the chat API with a model that writes a haiku, and that
// reads arguments out of a task.
func model(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"small-talk"},{"id":"text-embedding-3-small"}]}`)
		return
	}
	var request struct {
		Messages []struct{ Role, Content string }
		Stream   bool
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || !request.Stream || r.Header.Get("Authorization") != "Bearer of good news" {
		http.Error(w, `{"error":{"message":"what?"}}`, http.StatusBadRequest)
		return
	}
	words := []string{"An old pond; ", "a frog jumps in."}
	if request.Messages[0].Role == "system" {
		words = []string{`{"from":"2026-01-01",`, `"to":"2026-03-01"}`}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, text := range words {
		chunk, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]string{"content": text}}}})
		fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// Some tasks run on an MCP server, which is a process, some on functions, and one on a
// model.
func TestOrchestrator(t *testing.T) {
	ai := httptest.NewServer(http.HandlerFunc(model))
	defer ai.Close()
	t.Setenv("OPENAI_API_KEY", "of good news")
	config := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(config, []byte(`{"mcpServers": {"utilities": {"command": "metarouter", "args": ["builtin", "utilities"]}}}`), 0o600))
	var out bytes.Buffer
	err := run(t.Context(), embedded, []string{"-config", config, "-chat", ai.URL + "/v1"}, strings.NewReader(`
How many metres are 6 feet? Convert the unit. {"value": 6, "from_unit": "ft", "to_unit": "m"}
How many days are between New Year and the first of March?
Write a haiku about a frog
Roll the dice {"count": 101}
`), &out)
	expect.OK(t, err)
	t.Log(out.String())
	rest := settled(out.String())
	for _, want := range []string{
		"tools; all is up\n",
		"1. How many metres are 6 feet?", "why: utilities:unit_convert, confidence 0.", "its name has", `result: {"from_unit":"ft","to_unit":"m","value":1.8288}`,
		"2. How many days", "why: own:days_between, confidence 0.", `arguments: {"from":"2026-01-01","to":"2026-03-01"} by ai:small-talk`, `result: {"days":59}`,
		"3. Write a haiku", "ai:small-talk", "result: An old pond; a frog jumps in.",
		"4. Roll the dice", "why: own:roll_dice, confidence 0.", "failed: there are 100 dice and no more",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("%q is missing in\n%s", want, rest)
		}
		rest = after
	}
}

// Without a model, what is missing is said; without servers, functions remain.
func TestOrchestratorAlone(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	var out bytes.Buffer
	if err := run(t.Context(), embedded, []string{"count the days between two dates", "xyzzy"}, nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"failed: The arguments do not fit", "missing properties 'from', 'to'", "no tool fits the task"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	for _, args := range [][]string{{"-config", "nowhere.json"}, {"-chat", "nonsense", "x"}, {"-what"}} {
		if err := run(t.Context(), embedded, args, strings.NewReader(""), &out); err == nil {
			t.Errorf("%q is well", args)
		}
	}
}

// settled returns what is printed once servers have started: their tools are known a moment before.
func settled(printed string) string {
	return regexp.MustCompile(`degraded: mcp is (?:starting: .*|degraded: .* is starting)`).ReplaceAllString(printed, "up")
}

// docs/go.md shows what it prints.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../../docs/go.md")
	expect.OK(t, err)
	_, shown, _ := strings.Cut(string(page), "\n$ go -C providers run ./orchestrator ")
	shown, _, _ = strings.Cut(shown, "```")
	var args []string
	for line, more := "", true; more; {
		line, shown, _ = strings.Cut(shown, "\n")
		line, more = strings.CutSuffix(strings.TrimSpace(line), " \\")
		if strings.HasPrefix(line, "'") {
			args = append(args, strings.Trim(line, "'"))
		} else {
			args = append(args, strings.Fields(line)...)
		}
	}
	t.Setenv("OPENAI_BASE_URL", "")
	t.Chdir("..")
	var out bytes.Buffer
	if err := run(t.Context(), embedded, args, nil, &out); err != nil {
		t.Fatal(err)
	}
	if got := settled(out.String()); got != shown {
		t.Errorf("%q prints\n%sdocs/go.md says\n%s", args, got, shown)
	}
}

// A model is found even where a server bears the provider's name.
func TestNamesakes(t *testing.T) {
	ai := httptest.NewServer(http.HandlerFunc(model))
	defer ai.Close()
	t.Setenv("OPENAI_API_KEY", "of good news")
	config := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(config, []byte(`{"mcpServers": {"ai": {"command": "metarouter", "args": ["builtin", "utilities"]}}}`), 0o600))
	var out bytes.Buffer
	err := run(t.Context(), embedded, []string{"-config", config, "-chat", ai.URL + "/v1", "Write a haiku about a frog", "Count the days between two dates"}, nil, &out)
	expect.OK(t, err)
	for _, want := range []string{"ai/ai:small-talk", "result: An old pond", `{"days":59}`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
