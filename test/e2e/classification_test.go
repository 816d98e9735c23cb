//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// classifies asks the router at the URL in plain JSON-RPC.
func classifies(t *testing.T, url, text string) (v verdict) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"id": 1, "method": "tools/call", "params": map[string]any{
		"name": "classify_text", "arguments": map[string]any{"text": text, "with_probabilities": true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Errorf("classify_text: %v", err)
		return v
	}
	defer response.Body.Close()
	var answer struct{ Result result }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Result.IsError || len(answer.Result.Content) == 0 {
		t.Errorf("classify_text: %+v, %v", answer, err)
		return v
	}
	if err := json.Unmarshal([]byte(answer.Result.text()), &v); err != nil {
		t.Errorf("classify_text: %v", err)
	}
	return v
}

// health returns what /health says.
func health(t *testing.T, url string) (status, outside string) {
	t.Helper()
	response, err := http.Get(strings.TrimSuffix(url, "/mcp") + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var h struct {
		Status  string
		Outside struct{ State string } `json:"outside_classifier"`
	}
	if err := json.NewDecoder(response.Body).Decode(&h); err != nil {
		t.Fatal(err)
	}
	return h.Status, h.Outside.State
}

// An outside classification server is killed and comes back while many ask: each is
// answered, by the built-in classifier meanwhile, and says so.
func TestOutsideClassifierIsKilled(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		down, pids := filepath.Join(t.TempDir(), "down"), filepath.Join(t.TempDir(), "pids")
		command, args := mcptest.Command("-tools", "list_categories,classify_text", "-pid-file", pids)
		s := prepare(t, entries{"zoo": {"command": "sh", "args": append([]string{"-c", `test ! -e "$0" && exec "$@"`, down, command}, args...)}}, outsideAt("server", "zoo"))
		url, _ := s.serveHTTP()
		outage(t, url, func() {
			if err := writeFile(down, ""); err != nil {
				t.Fatal(err)
			}
			for _, pid := range mcptest.PIDs(t, pids) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}, func() { os.Remove(down) })
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		other := prepare(t, entries{}, map[string]any{"classification": creatures})
		there, process := other.serveHTTP()
		s := prepare(t, entries{}, outsideAt("url", there))
		url, _ := s.serveHTTP()
		outage(t, url, func() { process.Cmd.Process.Kill() }, func() {
			other.start("--http", strings.TrimSuffix(strings.TrimPrefix(there, "http://"), "/mcp"))
		})
	})
}

// outage has many ask the router while the outside server is killed and comes back.
func outage(t *testing.T, url string, kill, revive func()) {
	const callers = 8
	var fromOutside, fromBuiltin atomic.Int64
	stop := make(chan struct{})
	var asking sync.WaitGroup
	defer asking.Wait()
	defer sync.OnceFunc(func() { close(stop) })()
	mcptest.WaitFor(t, "the outside server to be up", func() bool { status, state := health(t, url); return status == "ok" && state == "up" })
	if v := classifies(t, url, "the cat and the dog"); v.Source != "outside" || v.Category != "animal" || v.Degraded {
		t.Errorf("%+v", v)
	}
	for range callers {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond): // other tests run at the same time
				}
				v := classifies(t, url, "the cat in the tree")
				switch {
				case v.Class == nil || len(v.Probabilities) != 3 || v.Degraded != (v.Source == "builtin"):
					t.Errorf("%+v", v)
					return
				case v.Degraded:
					fromBuiltin.Add(1)
				default:
					fromOutside.Add(1)
				}
			}
		})
	}
	mcptest.WaitFor(t, "answers of the outside server", func() bool { return fromOutside.Load() > 50 })
	kill()
	mcptest.WaitFor(t, "answers of the built-in classifier", func() bool { return fromBuiltin.Load() > 50 })
	mcptest.WaitFor(t, "/health to say so", func() bool { status, state := health(t, url); return status == "degraded" && state == "down" })
	revive()
	before := fromOutside.Load()
	mcptest.WaitFor(t, "the outside server to be used again", func() bool { return fromOutside.Load() > before+50 })
	mcptest.WaitFor(t, "/health to say so", func() bool { status, state := health(t, url); return status == "ok" && state == "up" })
	t.Logf("%d answers of the outside server, %d of the built-in classifier, none lost", fromOutside.Load(), fromBuiltin.Load())
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
