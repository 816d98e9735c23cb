//go:build unix

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// reals returns the named published servers as entries, and their folder.
func reals(t *testing.T, names ...string) (entries, string) {
	t.Helper()
	dir := t.TempDir()
	servers := slices.DeleteFunc(external.RealServers(t, dir), func(s external.RealServer) bool { return !slices.Contains(names, s.Name) })
	return realEntries(servers), dir
}

// server-everything has all that servers can have, and server-filesystem works in
// the client's roots: through the router as without it.
func TestFeaturesOfRealServers(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	all, dir := reals(t, "everything", "filesystem", "memory")
	home := t.TempDir()
	s := prepare(t, all, map[string]any{"listWait": "150s"})
	s.dir = dir
	raw := s.start("--mode", "direct")
	asked := make(chan string, 100)
	c := open(t, raw, raw.Notifications, "legacy", declared, func(method string, params json.RawMessage) json.RawMessage {
		asked <- method + " " + string(params)
		switch method {
		case "sampling/createMessage":
			return json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"sampled words"},"model":"m"}`)
		case "elicitation/create":
			return json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`)
		}
		return json.RawMessage(`{"roots":[{"uri":"file://` + home + `","name":"home"}]}`)
	})
	want := func(what, part string, got json.RawMessage, err error) {
		t.Helper()
		if err != nil || !strings.Contains(string(got), part) {
			t.Errorf("%s: %.600s, %v; want %s in it", what, got, err, part)
		}
	}
	ctx := within(t)
	if _, err := c.Request(ctx, "tools/list", nil); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ method, params, want string }{
		{"prompts/list", `{}`, `"everything__`},
		{"prompts/get", `{"name":"everything__args-prompt","arguments":{"city":"Malmö"}}`, "Malmö"},
		{"resources/list", `{}`, `"uri":"`},
		{"resources/templates/list", `{}`, `"uriTemplate":"`},
		{"resources/read", `{"uri":"demo://resource/dynamic/text/1"}`, `"text":"`},
		{"resources/read", `{"uri":"demo://resource/dynamic/blob/2"}`, `"blob":"`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"everything__completable-prompt"},"argument":{"name":"department","value":"E"}}`, "Engineering"},
		{"logging/setLevel", `{"level":"debug"}`, `{}`},
		{"tools/call", `{"name":"everything__trigger-sampling-request","arguments":{"prompt":"say"}}`, "sampled words"},
		{"tools/call", `{"name":"everything__trigger-elicitation-request","arguments":{}}`, "Ada"},
		{"tools/call", `{"name":"everything__get-roots-list","arguments":{}}`, home},
		{"tools/call", `{"name":"filesystem__list_allowed_directories","arguments":{}}`, filepath.Base(home)},
		{"tools/call", `{"name":"memory__read_graph","arguments":{}}`, `"entities"`},
	} {
		var params map[string]any
		if err := json.Unmarshal([]byte(tc.params), &params); err != nil {
			t.Fatal(err)
		}
		got, err := c.Request(ctx, tc.method, params)
		if tc.want == home || tc.want == filepath.Base(home) {
			mcptest.WaitFor(t, "the server to have read the roots", func() bool {
				got, err = c.Request(ctx, tc.method, params)
				return err != nil || strings.Contains(string(got), tc.want)
			})
		}
		want(tc.method+" "+tc.params, tc.want, got, err)
	}
	got, err := c.Request(ctx, "tools/call", map[string]any{"name": "everything__trigger-long-running-operation",
		"arguments": map[string]any{"duration": 1, "steps": 4}, "_meta": map[string]any{"progressToken": "p"}})
	want("progress", "completed", got, err)
	progress := 0
	for len(raw.Notifications) > 0 {
		if n := <-raw.Notifications; n.Method == "notifications/progress" && strings.Contains(string(n.Params), `"p"`) {
			progress++
		}
	}
	if progress != 4 {
		t.Errorf("%d notifications of progress, want 4", progress)
	}
	elicited := false
	for len(asked) > 0 {
		elicited = strings.Contains(<-asked, `"message":"everything: `) || elicited
	}
	if !elicited {
		t.Error("the person who was asked was not told by which server")
	}
}

// A real browser takes a picture of a real page, and the picture is the same
// through the router, byte for byte.
func TestScreenshot(t *testing.T) {
	layer.Full(t)
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if layer.Strict() {
			t.Fatal("there is no chromium")
		}
		t.Skip("there is no chromium here")
	}
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<!doctype html><title>A page</title><body style="background:#246;color:#fff;font:48px sans-serif">metarouter`))
	}))
	defer page.Close()
	dir := t.TempDir()
	node, modules := external.Node22(t), external.NPM(t)
	args := []string{filepath.Join(modules, "@playwright", "mcp", "cli.js"), "--headless", "--isolated", "--no-sandbox", "--timeout-action", "60000",
		"--executable-path", chromium, "--output-dir", dir}
	s := prepare(t, entries{"playwright": {"command": node, "args": args}}, map[string]any{"listWait": "150s"})
	c := s.serve("--mode", "direct", "--names", "bare")
	if r := call(t, c, "browser_navigate", `{"url":"`+page.URL+`"}`); r.IsError || !strings.Contains(r.text(), "A page") {
		t.Fatalf("browser_navigate: %s", r.text())
	}
	r := call(t, c, "browser_take_screenshot", `{"type":"png","scale":"css"}`)
	if r.IsError {
		t.Fatalf("browser_take_screenshot: %s", r.text())
	}
	var result struct {
		Content []struct {
			Type, Data, MIMEType string
		}
	}
	if err := json.Unmarshal(r.raw, &result); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(result.Content, func(c struct{ Type, Data, MIMEType string }) bool { return c.Type == "image" })
	if i < 0 {
		t.Fatalf("no image in %.500s", r.raw)
	}
	got, err := base64.StdEncoding.DecodeString(result.Content[i].Data)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.png")) // what the browser saved
	if err != nil || len(files) != 1 {
		t.Fatalf("pictures in the folder: %v, %v", files, err)
	}
	want, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || !bytes.HasPrefix(got, []byte("\x89PNG")) || len(got) < 1000 {
		t.Errorf("the image has %d bytes, the file of the browser %d", len(got), len(want))
	}
}
