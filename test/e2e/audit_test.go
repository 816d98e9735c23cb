//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A router that serves over HTTP records who did what, from where, and no argument and no secret.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	const admin, user, wrong, argument, variable = "admin-token-0123456789", "user-token-0123456789", "wrong-token-0123456789", "argument-of-a-call", "value-of-a-variable"
	own := func(profiles map[string]any) map[string]any {
		return map[string]any{
			"http": map[string]any{"tokens": []any{
				map[string]any{"token": admin, "name": "ops", "role": "admin"}, map[string]any{"token": user, "name": "ci", "profile": "work"},
			}},
			"profiles": profiles,
		}
	}
	work := map[string]any{"tools": map[string]any{"ask": []string{"echo"}}}
	s := prepare(t, entries{"s": fake("-tools", "echo")}, own(map[string]any{"work": work}))
	s.home = t.TempDir()
	address, process := s.serveHTTP()
	root := strings.TrimSuffix(address, "/mcp")
	send := func(method, token, path, body string) (status int, answer string) {
		t.Helper()
		response, answer := sendJSON(t, nil, method, root+path, bearer(token), body)
		return response.StatusCode, answer
	}
	for _, action := range []string{"stop", "start", "restart"} {
		if status, text := send(http.MethodPost, admin, "/dashboard/servers/s/"+action, "{}"); status != http.StatusOK {
			t.Errorf("%s: %d %s", action, status, text)
		}
	}
	if status, _ := send(http.MethodPost, wrong, "/mcp", "{}"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {root}}
	if response, _ := sendJSON(t, nil, http.MethodPost, root+"/login", form, url.Values{"token": {admin}}.Encode()); response.StatusCode != http.StatusSeeOther {
		t.Errorf("the login: %s", response.Status)
	}
	for _, decision := range []string{"approve", "deny"} { // the client can't ask its person
		send(http.MethodPost, user, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":"`+argument+" "+decision+`"}}}`)
		_, text := send(http.MethodGet, admin, "/dashboard/approvals", "")
		var waiting struct{ Approvals []struct{ ID string } }
		if err := json.Unmarshal([]byte(text), &waiting); err != nil || len(waiting.Approvals) != 1 {
			t.Fatalf("waiting: %s, %v", text, err)
		}
		if status, text := send(http.MethodPost, admin, "/dashboard/approvals/"+waiting.Approvals[0].ID+"/"+decision, "{}"); status != http.StatusOK {
			t.Errorf("%s: %d %s", decision, status, text)
		}
	}
	edited := fake("-tools", "echo")
	edited["env"] = map[string]string{"SETTING": variable}
	s.write(entries{"s": edited, "new": fake("-tools", "add")}, own(map[string]any{"work": work, "play": map[string]any{"servers": []string{"s"}}}))
	s.recorded("servers added: new; servers changed: s; profiles added: play")
	expect.OK(t, writeFile(s.config, "{"))
	s.recorded("the edit is not in use")
	set := exec.CommandContext(within(t), metarouter, s.command("secret", "set", "KEY")...)
	set.Env, set.Stdin = s.environment(), strings.NewReader(variable)
	if out, err := set.CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	process.Cmd.Process.Signal(os.Interrupt)
	<-process.Done

	log := s.recorded("ended after")
	for _, one := range []string{admin, user, wrong, argument, variable} {
		expect.Equal(t, strings.Contains(log, one), false, "the log has %q", one)
	}
	var happened []string
	for line := range strings.Lines(log) {
		var e struct{ Action, Outcome, Principal, From, Target, Reason string }
		expect.OK(t, json.Unmarshal([]byte(line), &e))
		happened = append(happened, strings.Join([]string{e.Action, e.Outcome, e.Principal, e.From, e.Target, e.Reason}, "|"))
	}
	for _, want := range []string{
		"router|ok||", "control|ok|ops|127.0.0.1|s|stop", "control|ok|ops|127.0.0.1|s|start", "control|ok|ops|127.0.0.1|s|restart",
		"request|refused||127.0.0.1|/mcp|", "login|ok|ops|127.0.0.1|", "approval|ok|ops|127.0.0.1|s:echo for ci|approved",
		"approval|refused|ops|127.0.0.1|s:echo for ci|declined", "edit|ok||file|" + s.config + "|hash ", "edit|refused||file|" + s.config + "|the edit is not in use",
		"secret|ok|", "router|ok||||ended after",
	} {
		if !slices.ContainsFunc(happened, func(one string) bool { return strings.HasPrefix(one, want) }) {
			t.Errorf("no event %q in\n%s", want, strings.Join(happened, "\n"))
		}
	}
	if out, errs, code := s.run("audit", "verify", filepath.Join(s.dir, "data", "audit.jsonl")); code != 0 || !strings.Contains(out, "intact") {
		t.Errorf("verify: %s%s%d", out, errs, code)
	}
}

// recorded waits until the audit log has a text, and returns it.
func (s *setup) recorded(text string) (log string) {
	s.t.Helper()
	mcptest.WaitFor(s.t, "the event "+text, func() bool {
		b, err := os.ReadFile(filepath.Join(s.dir, "data", "audit.jsonl"))
		log = string(b)
		return err == nil && strings.Contains(log, text)
	})
	return log
}
