package admin

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// command sends a request as a command of this user does, and decodes the answer into v.
func (s *site) command(method, path, body string, v any) (status int, notes []string) {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://router"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	ForCommands(s.mux).ServeHTTP(w, r)
	var noted struct{ Notes []string }
	expect.OK(s.t, json.Unmarshal(w.Body.Bytes(), &noted), "%s: %s", path, w.Body)
	if v != nil {
		expect.OK(s.t, json.Unmarshal(w.Body.Bytes(), v), "%s: %s", path, w.Body)
	}
	return w.Code, noted.Notes
}

// Commands get their answers, and errors with a remedy.
func TestCommands(t *testing.T) {
	s := open(t, fake("a", "echo,browser_screenshot,fail"), fake("b", "pid"))
	var tools Tools
	if status, _ := s.command("POST", "/dashboard/tools", `{"name":"echo","schemas":true}`, &tools); status != 200 || !tools.Described || len(tools.Tools) != 1 || tools.Tools[0].InputSchema == nil {
		t.Errorf("one tool: %d %+v", status, tools)
	}
	if status, _ := s.command("POST", "/dashboard/tools", `{"name":"b"}`, &tools); status != 200 || tools.Tools[0].ID != "b:pid" {
		t.Errorf("the tools of a server: %d %+v", status, tools)
	}
	var tags Capabilities
	if s.command("GET", "/dashboard/capabilities", "", &tags); !slices.ContainsFunc(tags.Capabilities, func(c Tag) bool { return c.Name == "browser" && c.Tools == 1 }) {
		t.Errorf("capabilities: %+v", tags)
	}
	var called Answer
	if status, _ := s.command("POST", "/dashboard/call", `{"tool":"echo","pairs":["message=5"],"confirmed":true}`, &called); status != 200 || called.IsError || !strings.Contains(string(called.Result), "5") {
		t.Errorf("a call: %d %+v", status, called)
	}
	if s.command("POST", "/dashboard/call", `{"tool":"a__echo","arguments":{"message":[]},"confirmed":true}`, &called); !strings.Contains(called.NotRun, "Write:\n  metarouter call a:echo") {
		t.Errorf("a call that does not fit: %+v", called)
	}
	var routed Answer
	if s.command("POST", "/dashboard/route", `{"task":"take a screenshot","dry_run":true}`, &routed); routed.Route.Tool != "a:browser_screenshot" || routed.Result != nil {
		t.Errorf("a route: %+v", routed)
	}
	var servers Servers
	if s.command("POST", "/dashboard/servers/b/restart", "{}", &servers); len(servers.Servers) != 1 || servers.Servers[0].Name != "b" {
		t.Errorf("a restart: %+v", servers)
	}
	var details ServerDetails
	if s.command("GET", "/dashboard/servers/b", "", &details); details.Name != "b" || details.Tools != 1 || details.Stderr == nil {
		t.Errorf("a server: %+v", details)
	}
	var reasons Reasons
	if s.command("POST", "/dashboard/why", `{"tool":"a:echo"}`, &reasons); !reasons.Offered || len(reasons.All) == 0 {
		t.Errorf("why: %+v", reasons)
	}
	if s.command("POST", "/dashboard/why", `{"tool":"b"}`, &reasons); !strings.HasPrefix(reasons.All[0], `"b" is a server, not a known tool: 'metarouter servers b'`) {
		t.Errorf("why a server: %+v", reasons)
	}
	var d doctor.Diagnosis
	if s.command("POST", "/dashboard/doctor", "{}", &d); d.Verdict != "servers that work: 2 of 2" {
		t.Errorf("the doctor: %+v", d)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/dashboard/tools", `{"name":"zzz"}`, 404, `unknown tool "zzz"; 'metarouter tools' lists all tools`},
		{"POST", "/dashboard/tools", `{"servers":["aa"]}`, 404, `no server is named "aa"`},
		{"POST", "/dashboard/tools", `{"capabilities":["zzz"],"known":true}`, 400, `no tag is named "zzz"`},
		{"POST", "/dashboard/tools?profile=zzz", `{}`, 400, `no profile is named "zzz"`},
		{"GET", "/dashboard/servers/zzz", "", 404, "the servers are a, b"},
		{"POST", "/dashboard/call", `{"tool":"echo","pairs":["x"]}`, 400, "write key=value"},
		{"POST", "/dashboard/call", `{`, 400, "the body is not what /dashboard/call takes"},
		{"POST", "/dashboard/call", `{"tool":"a:fail"}`, 409, "must be confirmed"},
		{"POST", "/dashboard/classify", `{"text":""}`, 400, "empty"},
	} {
		var refused Refusal
		if status, _ := s.command(c.method, c.path, c.body, &refused); status != c.status || !strings.Contains(refused.Error, c.says) {
			t.Errorf("%s %s: %d %q, want %d %q", c.path, c.body, status, refused.Error, c.status, c.says)
		}
	}
}

// A call about which a profile asks is answered with the question, and is made once the person has agreed
// to that question.
func TestConsent(t *testing.T) {
	s := open(t, fake("a", "echo"))
	c := s.router.Configured()
	c.Router.Profiles = map[string]config.Profile{"careful": {AskFor: []string{"*"}}}
	edited := s.router.Edited()
	s.edits <- c
	<-edited
	call := func(with Call) (called Answer) {
		with.Arguments = json.RawMessage(`{"message":"hi"}`)
		body, _ := json.Marshal(CallRequest{Call: with, Tool: "echo", Confirmed: true})
		s.command("POST", "/dashboard/call?profile=careful", string(body), &called)
		return called
	}
	asked := call(Call{})
	if asked.Question == "" || !strings.Contains(asked.NotRun, "--yes") {
		t.Fatalf("at first: %+v", asked)
	}
	for _, with := range []Call{{Agreed: asked.Question}, {Yes: true}} {
		if got := call(with); got.Question+got.NotRun != "" || !strings.Contains(string(got.Result), "hi") {
			t.Errorf("%+v: %+v", with, got)
		}
	}
	expect.Equal(t, call(Call{Agreed: "another question"}).Question, asked.Question, "with a yes to another question")
}

// Commands are told that an edit waits, with the command that approves it where they run.
func TestNoteOfEdit(t *testing.T) {
	s := open(t, fake("a", "echo"))
	s.options.TrustCommand = new(configfile.Source).TrustCommand
	file := filepath.Join(t.TempDir(), ".mcp.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"mcpServers": {"new": {"command": "x"}}}`), 0o600))
	text, err := config.LoadText(file)
	expect.OK(t, err)
	s.Judged(&trustfile.Untrusted{Before: true, Added: []string{"new"}, Text: text.Text})
	for path, want := range map[string]string{"": "run: metarouter trust", "?named=1": "run: metarouter trust " + file} {
		if _, notes := s.command("GET", "/dashboard/servers"+path, "", nil); len(notes) != 1 || !strings.HasSuffix(notes[0], want) {
			t.Errorf("%q: notes %q, want the end %q", path, notes, want)
		}
	}
	var refused Refusal
	if status, _ := s.command("GET", "/dashboard/servers/new", "", &refused); status != 404 || !strings.Contains(refused.Error, `no server is named "new"`) {
		t.Errorf("a server of the edit: %d %q", status, refused.Error)
	}
	s.Judged(nil)
	if _, notes := s.command("GET", "/dashboard/servers", "", nil); notes != nil {
		t.Errorf("after the edit: notes %q", notes)
	}
}

// A router that serves clients notes which servers do not work if a request needs it, and one of a command always.
func TestNoteFailed(t *testing.T) {
	down := []status.Server{{Status: status.Status{Name: "a", State: status.Failed, LastError: "x"}}}
	for _, serves := range []bool{false, true} {
		for _, needed := range []bool{false, true} {
			a := New(config.Config{}, Options{})
			if serves {
				a.mcp = new(server.Servers)
			}
			q := &query{API: a}
			q.noteFailed(down, needed)
			expect.Equal(t, len(q.notes) == 1, needed || !serves, "serves %v, needed %v: %q", serves, needed, q.notes)
		}
	}
}
