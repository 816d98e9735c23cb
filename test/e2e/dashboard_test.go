//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// pagePath is the folder of the dashboard's page, from here.
var pagePath = filepath.Join("..", "..", "cmd", "metarouter", "internal", "dashboard", "page")

// TestDashboard uses the page in a browser: testdata/dashboard.mjs says how.
func TestDashboard(t *testing.T) {
	t.Parallel()
	const evil = "<img src=x onerror=window.pwned=1>"
	s := prepare(t, entries{
		"utilities": {"command": "metarouter", "args": []string{"builtin", "utilities"}},
		"broken":    {"command": "metarouter-no-such-command"},
		"fragile":   fake("-name", "fragile", "-tools", "echo,pid", "-start-delay", "8s"),
		"steady": fake("-tools", "echo,pid,fail",
			"-tool", definition("exact", "Echo all sorts of arguments.", `{"type":"object","required":["big","label","nested"],"properties":{
				"big":{"type":"integer","description":"A whole number of any size."},"fraction":{"type":"number","minimum":0},
				"label":{"type":"string"},"mode":{"enum":["fast","slow"],"default":"fast"},"tags":{"type":"array","items":{"type":"string"}},
				"when":{"type":"string","format":"date"},"maybe":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},
				"nested":{"type":"object","required":["inner"],"properties":{"inner":{"type":"string"},"flag":{"type":"boolean","default":true}}},
				"anything":{}}}`, `{"readOnlyHint":true}`),
			"-tool", definition("delete_all", "Delete everything below a path.", `{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}`, `{"destructiveHint":true}`)),
		"evil <b>": fake("-tool", definition(evil, "An evil tool. "+evil, `{"type":"object","properties":{"message":{"type":"string","description":"`+evil+`"}}}`, `{"readOnlyHint":true}`)),
	}, map[string]any{"profiles": map[string]any{
		"careful": map[string]any{"servers": []string{"steady"}, "ask": []string{"echo"}},
		"reader":  map[string]any{"servers": []string{"steady", "util*"}, "readOnly": true, "mode": "search", "scripts": true},
	}})
	url, _ := s.serveHTTP()
	const token = "open-sesame"
	guarded, _ := prepare(t, entries{"echo": fake("-tools", "echo")}, map[string]any{
		"http":     map[string]any{"tokens": []map[string]any{{"token": token, "name": "ops", "role": "admin"}}},
		"profiles": map[string]any{"careful": map[string]any{"ask": "always"}},
	}).serveHTTP()
	found := project{t, t.TempDir()}
	found.save("one")
	waiting := found.serveHTTP()
	found.save("one", "two")
	runPage(t, "dashboard.mjs", map[string]any{
		"url": strings.TrimSuffix(url, "/mcp"), "config": s.config, "shots": t.TempDir(),
		"guarded": strings.TrimSuffix(guarded, "/mcp"), "token": token, "waiting": waiting, "all": layer.Everything(),
	})
}

// TestScreenshots takes screenshots of the page over servers that look like real ones,
// into the folder METAROUTER_SCREENSHOTS; it takes as many seconds as
// METAROUTER_SCREENSHOTS_AFTER says for the charts to fill, else 310.
func TestScreenshots(t *testing.T) {
	layer.Full(t)
	shots := os.Getenv("METAROUTER_SCREENSHOTS")
	if shots == "" {
		t.Skip("METAROUTER_SCREENSHOTS names no folder")
	}
	after, err := strconv.Atoi(cmp.Or(os.Getenv("METAROUTER_SCREENSHOTS_AFTER"), "310"))
	expect.OK(t, err)
	stage, err := filepath.Abs(filepath.Join("testdata", "stage.mjs"))
	expect.OK(t, err)
	all := entries{
		"utilities": {"command": "metarouter", "args": []string{"builtin", "utilities"}},
		"files":     {"command": "metarouter", "args": []string{"builtin", "files", "."}},
		"github": {"command": "docker", "args": []string{"run", "-i", "--rm", "ghcr.io/github/github-mcp-server"},
			"env": map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "x"}},
		"slack": {"command": "npx", "args": []string{"-y", "@modelcontextprotocol/server-slack"}, "env": map[string]string{"SLACK_BOT_TOKEN": "${SLACK_BOT_TOKEN}"}},
	}
	for _, name := range []string{"playwright", "memory", "postgres", "sentry", "context7", "sequential-thinking", "linear"} {
		all[name] = map[string]any{"command": external.Node22(t), "args": []string{stage, name}}
	}
	all["context7"]["lazy"] = true
	s := prepare(t, all, map[string]any{"toolBudget": 1000})
	expect.OK(t, writeFile(filepath.Join(s.dir, "README.md"), "Nothing TODO here."))
	url, _ := s.serveHTTP()
	runPage(t, "screenshots.mjs", map[string]any{"url": strings.TrimSuffix(url, "/mcp"), "shots": shots, "seconds": after})
}

// definition is a tool as a server lists it.
func definition(name, description, schema, annotations string) string {
	text, err := json.Marshal(map[string]any{"name": name, "description": description,
		"inputSchema": json.RawMessage(schema), "annotations": json.RawMessage(annotations)})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// runPage runs a script of testdata that drives a browser.
func runPage(t *testing.T, script string, with map[string]any) {
	t.Helper()
	with["modules"], with["browser"] = external.NPM(t), external.Program(t, "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	argument, err := json.Marshal(with)
	expect.OK(t, err)
	cmd := exec.CommandContext(ctx, external.Node22(t), filepath.Join("testdata", script), string(argument))
	cmd.WaitDelay = 10 * time.Second // for what a browser leaves behind
	out, err := cmd.CombinedOutput()
	expect.OK(t, err, "%s", out)
	t.Logf("%s", out)
}

// TestDashboardForms has forms made of schemas, and arguments made of forms, without a
// browser.
func TestDashboardForms(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	page, err := filepath.Abs(pagePath)
	expect.OK(t, err)
	out, err := exec.CommandContext(within(t), external.Node22(t), filepath.Join("testdata", "forms.mjs"), page).CombinedOutput()
	expect.OK(t, err, "%s", out)
}

// TestDashboardVendored compares the libraries that are embedded with the packages that
// are locked.
func TestDashboardVendored(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	modules := external.PageModules(t)
	vendor := filepath.Join(pagePath, "vendor")
	files := 0
	err := filepath.WalkDir(vendor, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		name, err := filepath.Rel(vendor, path)
		if err != nil {
			return err
		}
		embedded, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		locked, err := os.ReadFile(filepath.Join(modules, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(embedded, locked) {
			t.Errorf("%s is not as it is in the locked package: run what cmd/metarouter/internal/dashboard/npm/README.md says", name)
		}
		return nil
	})
	expect.OK(t, err)
	if files == 0 {
		t.Error("there is nothing to compare")
	}
}
