//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// vLLM semantic router's client is made with mcp-go: it sends an empty protocolVersion, and
// refuses an answer that is newer than itself.
func TestMCPGo(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	program := external.MCPGo(t)
	creatures := []any{
		map[string]any{"name": "animal", "keywords": []string{"cat", "dog", "bird"}, "examples": []string{"the cat sleeps", "a dog barks", "birds fly south"}},
		map[string]any{"name": "plant", "keywords": []string{"tree", "rose", "leaf"}, "examples": []string{"a tree has leaves", "roses smell sweet", "the old tree"}},
		map[string]any{"name": "other"},
	}
	s := prepare(t, entries{"zoo": fake("-tools", "feed")}, map[string]any{
		"mode": "direct", "listWait": "60s", "classification": map[string]any{"categories": creatures, "fallback": "other", "model": "ours"},
	})
	url, _ := s.serveHTTP()
	for name, target := range map[string][]string{
		"stdio": append([]string{metarouter}, s.command("serve")...),
		"HTTP":  {url},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asMCPGo(t, program, target)
		})
	}
}

// asMCPGo lists and calls tools with mcp-go.
func asMCPGo(t *testing.T, program string, target []string) {
	client := exec.CommandContext(within(t), program, target...)
	client.Stdin = strings.NewReader(`
		{"name": "list_categories", "arguments": {}}
		{"name": "classify_text", "arguments": {"text": "the cat and the dog", "with_probabilities": true}}
		{"name": "zoo__feed", "arguments": {}}`)
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.Output()
	expect.OK(t, err, "%s", stderr.String())
	var begun struct{ ProtocolVersion string }
	var list struct{ Tools []struct{ Name string } }
	var categories, class, fed result
	answers := json.NewDecoder(bytes.NewReader(out))
	for _, into := range []any{&begun, &list, &categories, &class, &fed} {
		expect.OK(t, answers.Decode(into), "%s", out)
	}
	if begun.ProtocolVersion != "2025-03-26" || len(list.Tools) != 3 {
		t.Errorf("%+v\n%+v", begun, list)
	}
	var v struct {
		Class         *int
		Probabilities []float64
	}
	if err := json.Unmarshal([]byte(class.text()), &v); err != nil || v.Class == nil || *v.Class != 0 || len(v.Probabilities) != 3 {
		t.Errorf("classify_text: %s", class.text())
	}
	if !strings.Contains(categories.text(), "animal") || fed.IsError || len(fed.Content) == 0 {
		t.Errorf("list_categories: %s\nzoo__feed: %+v", categories.text(), fed)
	}
}
