//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// creatures are the fake server's categories, so that the built-in classifier can
// stand in for it.
var creatures = map[string]any{
	"categories": []any{
		map[string]any{"name": "animal", "keywords": []string{"cat", "dog", "bird"}, "examples": []string{"the cat sleeps", "a dog barks", "birds fly south"}},
		map[string]any{"name": "plant", "keywords": []string{"tree", "rose", "leaf"}, "examples": []string{"a tree has leaves", "roses smell sweet", "the old tree"}},
		map[string]any{"name": "other"},
	},
	"fallback": "other", "model": "ours",
}

func outsideAt(key, where string) map[string]any {
	c := map[string]any{"type": "mcp", key: where, "timeout": "20s", "num_categories": 3}
	for k, v := range creatures {
		c[k] = v
	}
	return map[string]any{"classification": c}
}

// verdict is what classify_text answers.
type verdict struct {
	Class         *int
	Category      string
	Confidence    float64
	Probabilities []float64
	Model         string
	Source        string
	Degraded      bool
}

// One command waits for the outside server's start, which may take longer than a
// classification, and what does not classify does not start it.
func TestClassifyOnce(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	command, args := mcptest.Command("-tools", "list_categories,classify_text", "-pid-file", pids)
	own := outsideAt("server", "zoo")
	own["classification"].(map[string]any)["timeout"] = "15s"
	slow := filepath.Join(t.TempDir(), "slow")
	s := prepare(t, entries{"zoo": {"command": "sh", "args": append([]string{"-c", `test ! -e "$0" || sleep 16; exec "$@"`, slow, command}, args...)}}, own)
	out, stderr, code := s.run("tools")
	if code != 0 || !strings.Contains(out, "classify_text") {
		t.Fatalf("%s%s", out, stderr)
	}
	before := len(mcptest.PIDs(t, pids))
	if out, stderr, code = s.run("tools"); code != 0 || !strings.Contains(out, "classify_text") {
		t.Fatalf("%s%s", out, stderr)
	}
	if now := len(mcptest.PIDs(t, pids)); now != before {
		t.Errorf("it was started %d times by who did not classify", now-before)
	}
	if err := writeFile(slow, ""); err != nil {
		t.Fatal(err)
	}
	out, stderr, code = s.run("classify", "--json", "the cat and the dog")
	os.Remove(slow)
	var v verdict
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Source != "outside" || v.Category != "animal" {
		t.Errorf("%s%s", out, stderr)
	}
	if out, stderr, code = s.run("classify", "the cat and the dog"); code != 0 || !strings.Contains(out, "animal (") || stderr != "" {
		t.Errorf("%s%s", out, stderr)
	}
}
