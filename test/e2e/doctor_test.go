//go:build unix

package e2e

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

var update = flag.Bool("update", false, "write what the program prints into the golden files")

// Entries that are broken in different ways, each with the doctor's finding.
func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"bin/npx": "#!/bin/sh\nexit 1\n", "run.py": "print('hi')\n", "text": "no program\n"} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755
		}
		expect.OK(t, os.WriteFile(path, []byte(text), mode))
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/private" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		http.NotFound(w, q)
	}))
	t.Cleanup(site.Close)

	sh := func(script string) map[string]any {
		return map[string]any{"command": "sh", "args": []string{"-c", script}}
	}
	with := func(entry map[string]any, key string, value any) map[string]any {
		entry[key] = value
		return entry
	}
	command, args := mcptest.Command("-name", "noisy")
	long := strings.Repeat("long-", 9) + "name"
	all := []struct {
		name  string
		entry any
	}{
		{"not installed", map[string]any{"command": "no-such-program"}},
		{"misspelt", map[string]any{"command": "nxp", "args": []string{"-y", "pkg"}}},
		{"in one word", map[string]any{"command": "npx -y pkg --token=abcdefgh1"}},
		{"a script", map[string]any{"command": filepath.Join(dir, "run.py")}},
		{"not allowed", map[string]any{"command": filepath.Join(dir, "text")}},
		{"no folder", with(sh("exit 0"), "cwd", filepath.Join(dir, "nowhere"))},
		{"unset", map[string]any{"command": "npx", "env": map[string]string{"TOKEN": "${NO_SUCH_TOKEN}"}}},
		{"no env file", with(sh("exit 0"), "envFile", filepath.Join(dir, "none.env"))},
		{"mistyped", map[string]any{"command": "npx", "args": "-y pkg"}},
		{"variable", sh("echo 'Error: SLACK_BOT_TOKEN is not set' >&2; exit 1")},
		{"exits", sh("echo 'what a day' >&2; exit 7")},
		{"silent", sh("exit 0")},
		{"no module", sh(`printf 'node:internal/modules/cjs/loader:1\n  throw err;\n\nError: Cannot find module "/srv/server.js"\n' | tr '"' "'" >&2; exit 1`)},
		{"over HTTP", with(sh("echo 'listening on http://0.0.0.0:3000/mcp' >&2; exec sleep 60"), "startTimeout", "10s")},
		{"mute", with(fake("-mute"), "startTimeout", "10s")},
		{"refuses", map[string]any{"url": "http://127.0.0.1:1/mcp"}},
		{"private", map[string]any{"url": site.URL + "/private"}},
		{"not there", map[string]any{"type": "http", "url": site.URL + "/nothing?key=secret"}},
		{"noisy", sh("echo 'Welcome!'; exec " + command + " " + strings.Join(args, " "))},
		{"old", fake("-protocol", "2024-11-05")},
		{"bad tools", fake("-bad-schemas")},
		{long, fake("-tool", "a_tool: With a description.")},
		{"one", fake("-tool", "same: With a description.")},
		{"two", fake("-tool", "same: With a description.")},
		{"costly", fake("-tool", "huge: "+strings.Repeat("long ", 4000), "-tool", "small: Small.")},
		{"filtered", with(fake("-tool", "read: Reads."), "tools", map[string]any{"deny": []string{"raed"}})},
		{"off", map[string]any{"command": "x", "disabled": true}},
		{"router", map[string]any{"command": metarouter, "args": []string{"serve"}}},
	}
	var b strings.Builder
	b.WriteString("{\"mcpServers\": {\n")
	for i, s := range all {
		entry, err := json.Marshal(s.entry)
		expect.OK(t, err)
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString("\"" + s.name + "\": " + string(entry))
	}
	b.WriteString("\n}, \"metarouter\": {\"pinned\": [\"one:nothing\"], \"modus\": \"x\"}}\n")
	file := filepath.Join(dir, "mcp.json")
	expect.OK(t, writeFile(file, b.String()))
	cmd := exec.CommandContext(within(t), metarouter, "doctor", "--config", file, "--data", filepath.Join(dir, "data"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "SHELL=/bin/false", "PATH="+filepath.Join(dir, "bin")+":/usr/bin:/bin")
	out, err := cmd.Output()
	expect.Equal(t, cmd.ProcessState.ExitCode(), 1, "it exits with …: %v", err)
	got := steady(string(out), dir, site.URL)
	golden := filepath.Join("testdata", "doctor.golden")
	if *update {
		expect.OK(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	expect.OK(t, err)
	expect.Equal(t, got, string(want), "the doctor says")
}

var (
	tookLong = regexp.MustCompile(`(?m)^  · it took .* to start.*\n`) // on a busy machine
	ended    = regexp.MustCompile(`ended after [0-9.]+ s`)
	warnings = regexp.MustCompile(`; [0-9]+ warnings?`)
)

// steady returns the output without the parts that differ from run to run.
func steady(text, dir, url string) string {
	host := strings.TrimPrefix(url, "http://")
	text = strings.NewReplacer(url, "http://HOST", host, "HOST", dir, "$WORK").Replace(text)
	text = tookLong.ReplaceAllString(text, "")
	text = ended.ReplaceAllString(text, "ended at once")
	return warnings.ReplaceAllString(text, "; some warnings")
}

// diagnose runs the doctor and returns its findings by server.
func (s *setup) diagnose(args ...string) (findings map[string][]string, ok bool, code int) {
	s.t.Helper()
	stdout, stderr, code := s.run(append([]string{"doctor", "--json"}, args...)...)
	var d struct {
		OK       bool
		Findings []struct{ Server, Problem, Fix string }
	}
	expect.OK(s.t, json.Unmarshal([]byte(stdout), &d), "%s%s", stdout, stderr)
	findings = make(map[string][]string)
	for _, f := range d.Findings {
		findings[f.Server] = append(findings[f.Server], f.Problem+" → "+f.Fix)
	}
	return findings, d.OK, code
}

// Messages of npx and npm.
func TestDoctorNPX(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.NPM(t) // or there is no npm
	registry := external.NewRegistry(t)
	env := map[string]string{"npm_config_cache": t.TempDir(), "npm_config_registry": registry.URL}
	npx := func(spec string) map[string]any {
		return map[string]any{"command": "npx", "args": []string{"-y", spec}, "env": env}
	}
	s := prepare(t, entries{"good": npx("fake-0"), "nowhere": npx("nowhere"), "future": npx("fake-1@9.9.9")}, nil)
	findings, ok, code := s.diagnose()
	if ok || code != 1 {
		t.Errorf("ok %v, exit %d", ok, code)
	}
	for server, want := range map[string]string{
		"nowhere": "npm does not find the package nowhere: the name is wrong, or the package is private.",
		"future":  "the package fake-1@9.9.9 has no such version.",
	} {
		if len(findings[server]) != 1 || !strings.HasPrefix(findings[server][0], want) {
			t.Errorf("%s: %q, want %q", server, findings[server], want)
		}
	}
	for _, f := range findings["good"] {
		expect.Contains(t, f, "to start", "good") // on a busy machine it takes long
	}
	stdout, stderr, _ := s.run("doctor", "--pin") // the version of what runs
	if !regexp.MustCompile(`(?m)^\+.*"fake-0@[0-9]+\.[0-9]+\.[0-9]+"`).MatchString(stdout) || !strings.Contains(stderr, "not pinned: nowhere: ") || !strings.Contains(stderr, "nothing was written; add --write") {
		t.Errorf("doctor --pin:\n%s%s", stdout, stderr)
	}
}

// serve logs a warning of the configuration once: at its start, and after the edit that
// brings it. A file that is written again as it was is no edit.
func TestWarningsAreLoggedOnce(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	odd := func(key string) map[string]any {
		entry := fake("-tool", "t: T.")
		entry[key] = 1
		return entry
	}
	s := prepare(t, entries{"one": odd("colour")}, nil)
	c := s.serve()
	s.write(entries{"one": odd("flavour")}, nil)
	mcptest.WaitFor(t, "the edit's warning", func() bool { return strings.Contains(c.Stderr(), `the key "flavour" is not known`) })
	s.write(entries{"one": odd("flavour")}, nil)
	s.write(entries{"one": odd("flavour"), "two": odd("odour")}, nil)
	mcptest.WaitFor(t, "the last edit's warning", func() bool { return strings.Contains(c.Stderr(), `the key "odour" is not known`) })
	said := c.Stderr()
	expect.Equal(t, strings.Count(said, `the key "colour"`), 1, "the first warning is logged … times:\n%s", said)
	expect.Equal(t, strings.Count(said, `the key "flavour"`), 2, "the edit's warning is logged … times:\n%s", said) // with its edit and with the next one
}
