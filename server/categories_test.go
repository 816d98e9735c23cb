package server

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The two tools of the classification protocol can always be called, and are listed
// if the configuration has it.
func TestClassification(t *testing.T) {
	c := initialized(t, newFake(), Options{Mode: exposure.Direct})
	if got := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); strings.Contains(got, "classify_text") {
		t.Errorf("listed: %s", got)
	}
	var categories struct {
		Categories    []string
		Descriptions  map[string]string `json:"category_descriptions"`
		SystemPrompts map[string]string `json:"category_system_prompts"`
	}
	c.ownTool(`"list_categories","arguments":{}`, &categories)
	if got := strings.Join(categories.Categories, " "); got != "math history" || categories.Descriptions["math"] != "Numbers" || categories.SystemPrompts["history"] != "You remember." {
		t.Errorf("categories: %+v", categories)
	}
	var a struct {
		Class         int
		Confidence    float64
		Model         string
		UseReasoning  *bool `json:"use_reasoning"`
		Probabilities []float64
		Entropy       float64
	}
	c.ownTool(`"classify_text","arguments":{"text":"Which emperor began the war?","with_probabilities":true}`, &a)
	if a.Class != 1 || len(a.Probabilities) != 2 || math.Abs(a.Probabilities[1]-a.Confidence) > 1e-9 || a.Model != "default" || a.UseReasoning == nil {
		t.Errorf("%+v", a)
	}
	a.Probabilities = nil
	if c.ownTool(`"classify_text","arguments":{"text":"solve 2 + 2"}`, &a); a.Class != 0 || a.Probabilities != nil {
		t.Errorf("%+v", a)
	}
	for arguments, want := range map[string]string{
		`{}`: "text", `{"text":""}`: "empty", `{"text":7}`: "string",
		`{"text":"` + strings.Repeat("x", 9000) + `"}`: "8192",
	} {
		got := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"classify_text","arguments":` + arguments + `}}`)
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, want) {
			t.Errorf("%.80s: %s, want %q", arguments, got, want)
		}
	}

	listed := connect(t, newFake(tool("s", "a")), Options{Mode: exposure.Direct, Classifies: true})
	listed.initialize()
	if got := listed.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(got, `"classify_text"`) || !strings.Contains(got, `"list_categories"`) || strings.Contains(got, "find_tools") {
		t.Errorf("listed: %s", got)
	}
}

// ownTool calls a tool and decodes the JSON in the text of its answer.
func (c *client) ownTool(call string, v any) {
	c.t.Helper()
	var answer struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	got := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + call + `}}`)
	if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.Result.IsError || len(answer.Result.Content) != 1 {
		c.t.Fatalf("%s: %s, %v", call, got, err)
	}
	expect.OK(c.t, json.Unmarshal([]byte(answer.Result.Content[0].Text), v), "%s: %s", call, got)
}
