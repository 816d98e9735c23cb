//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A person's answer counts for the call of the script that was asked about. The same answer, which comes again after
// the router was killed, does not count for the next call, although its question reads the same.
func TestScriptAnswerCountsOnce(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	ledger := filepath.Join(t.TempDir(), "ledger")
	s := prepare(t, entries{"bank": fake("-tools", "ledger_charge", "-ledger", ledger)}, map[string]any{
		"mode": "code", "profiles": map[string]any{"default": map[string]any{"ask": "always"}},
	})
	address := mcptest.FreeAddress(t)
	router := s.serveAt(address)
	params := map[string]any{"name": "run_script", "arguments": map[string]any{
		"code": `for (let i = 0; i < 2; i++) await call("bank:ledger_charge", {id: "same"}); return "both"`,
	}}
	answer := func(params map[string]any) pause {
		t.Helper()
		c := mcptest.NewHTTPClient(t, "http://"+address+"/mcp")
		c.Declare(personal)
		if _, err := c.Discover(within(t)); err != nil {
			t.Fatal(err)
		}
		result, err := c.Request(within(t), "tools/call", params)
		var p pause
		if err != nil || json.Unmarshal(result, &p) != nil || p.ResultType != "input_required" || len(p.InputRequests) != 1 {
			t.Fatalf("no question, but %s, %v\n%s", result, err, router.Stderr())
		}
		return p
	}
	agrees := (&session{answers: func(string, json.RawMessage) json.RawMessage {
		return json.RawMessage(`{"action":"accept","content":{}}`)
	}}).answered(params, answer(params))
	answer(agrees)
	router.Kill()
	<-router.Done
	router = s.serveAt(address)
	answer(agrees)
	if text, _ := os.ReadFile(ledger); strings.Count(string(text), `"Ended":true`) != 1 {
		t.Errorf("one call was approved, and the ledger has\n%s", text)
	}
}

// Each call of a script is a call as any other: the profile hides, fixes and limits, arguments are checked and
// repaired, servers get as many calls at once as they may, and log, metrics, page and trace have the call under its
// tool's name, with the script's id.
func TestScriptCallsAreCalls(t *testing.T) {
	layer.Full(t)
	spans := collect(t)
	ledger := filepath.Join(t.TempDir(), "ledger")
	server := fake("-tools", "echo,say,big,pid,cwd,ledger_put", "-ledger", ledger)
	server["maxConcurrent"], server["tools"] = 1, map[string]any{"rate": map[string]any{"pid": "1/h burst 1"}}
	const user, admin = "user-token-0123456789", "admin-token-0123456789"
	s := prepare(t, entries{"s": server}, map[string]any{
		"accessLog": "access.log",
		"http": map[string]any{"tokens": []any{
			map[string]any{"token": user, "name": "ci", "profile": "work"}, map[string]any{"token": admin, "name": "ops", "role": "admin"},
		}},
		"profiles": map[string]any{"work": map[string]any{
			"mode": "code", "tools": map[string]any{"deny": []string{"cwd"}}, "arguments": map[string]any{"s:echo": map[string]any{"message": "fixed"}},
		}},
	})
	url, router := s.serveHTTP()
	c := mcptest.NewHTTPClient(t, url)
	c.Header = http.Header{"Authorization": {"Bearer " + user}}
	if _, err := c.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	trace, parent := parentOf(1)
	raw, err := c.Request(within(t), "tools/call", map[string]any{"name": "run_script", "_meta": map[string]any{"traceparent": parent}, "arguments": map[string]any{"code": `
		const refused = async f => { try { return await f() } catch (e) { return e.message } };
		const put = () => call("s:ledger_put", {id: "put", ms: 20});
		return {
			found: (await search("the process id or the working directory of this server")).map(t => t.tool).sort().join(" "),
			hidden: await refused(() => call("s:cwd")), missing: await refused(() => call("s:cwt")), described: await refused(() => describe("s:cwd")),
			fixed: await call("s:echo"), wrong: await refused(() => call("s:big", {bytes: "many"})), repaired: (await call("s:big", {bytes: "3"})).length, near: await refused(() => call("s:ekho")),
			pid: await call("s:pid"), soon: await refused(() => call("s:pid")), puts: await Promise.all([put(), put(), put()]),
		}`}})
	if err != nil {
		t.Fatalf("%v\n%s", err, router.Stderr())
	}
	var got struct {
		Found, Hidden, Missing, Described, Wrong, Soon, Near string
		Fixed                                                struct{ Message string }
		PID, Repaired                                        int
	}
	if text := decode(t, raw).text(); json.Unmarshal([]byte(text), &got) != nil {
		t.Fatalf("the script ends with %s", text)
	}
	if strings.Contains(got.Found, "s:cwd") || !strings.Contains(got.Found, "s:pid") {
		t.Errorf("search finds %s", got.Found)
	}
	if hidden := strings.ReplaceAll(got.Hidden, "s:cwd", "s:cwt"); hidden != got.Missing || got.Described != "describe: "+got.Hidden {
		t.Errorf("a hidden tool: %s\ndescribed: %s\na tool that does not exist: %s", got.Hidden, got.Described, got.Missing)
	}
	if got.Fixed.Message != "fixed" || got.Repaired != 3 || got.PID == 0 || !strings.Contains(got.Wrong, "bytes") || !strings.Contains(got.Soon, "1 an hour") || !strings.Contains(got.Near, "s:echo") {
		t.Errorf("the script ends with %+v", got)
	}
	if text, _ := os.ReadFile(ledger); !oneAtATime(string(text)) {
		t.Errorf("calls of a server that has one at a time:\n%s", text)
	}

	var script string
	outcomes := map[string]string{}
	mcptest.WaitFor(t, "the access log", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "access.log"))
		clear(outcomes)
		for line := range strings.Lines(string(text)) {
			var e struct{ Script, Server, Tool, Outcome, Principal, Profile string }
			if json.Unmarshal([]byte(line), &e) == nil && e.Script != "" {
				script = e.Script
				outcomes[e.Tool] += e.Outcome + " "
			}
		}
		return strings.Contains(string(text), `"tool":"run_script"`)
	})
	want := map[string]string{"echo": "ok ", "big": "invalid_arguments ok ", "pid": "ok no_answer ", "ledger_put": "ok ok ok "}
	if !maps.Equal(outcomes, want) {
		t.Errorf("the access log has the outcomes %q, want %q", outcomes, want)
	}
	run := spans.span(t, trace, "tools/call run_script", asServer)
	inner := spans.span(t, trace, "tools/call s:echo", inside)
	if !bytes.Equal(inner.ParentSpanId, run.SpanId) || attribute(inner, "metarouter.script") != script {
		t.Errorf("the span of a call is %v; that of the script is %v", inner, run)
	}
	asAdmin := func(path string) *http.Response {
		q, err := http.NewRequestWithContext(within(t), http.MethodGet, strings.TrimSuffix(url, "/mcp")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+admin)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Body.Close() })
		return r
	}
	for path, want := range map[string]string{
		"/metrics":          `metarouter_calls_total{outcome="ok",server="s",tool="echo"} 1`,
		"/dashboard/events": `"script":"` + script + `"`,
	} {
		if !reads(asAdmin(path).Body, want) {
			t.Errorf("%s has no %s", path, want)
		}
	}
}

// approvedScript makes a call, a second one that a person has to approve, and a third with what these return.
const approvedScript = `
const first = await call("work:echo", {message: "one"});
const second = await call("work:add", {a: 20, b: 22});
return first.message + " " + (await call("work:echo", {message: "two"})).message + " " + JSON.stringify(second);`

// The official TypeScript SDKs run a script with an approval in the middle: version 1, which is asked while the script
// waits, and version 2, which comes back with the answer.
func TestScriptsOfTypeScriptClients(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"work": fake("-tools", "echo,add")}, map[string]any{
		"mode": "code", "profiles": map[string]any{"default": map[string]any{"tools": map[string]any{"ask": []string{"add"}}}},
	})
	client := sdkProgram(t, "script.mjs")
	router, err := json.Marshal(append([]string{metarouter}, s.command("serve")...))
	if err != nil {
		t.Fatal(err)
	}
	for era, revision := range map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"} {
		cmd := exec.CommandContext(within(t), external.Node22(t), client, era, string(router), approvedScript)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", era, err, stderr.String())
			continue
		}
		var did struct {
			Revision  string
			Questions []string
			Result    json.RawMessage
		}
		if err := json.Unmarshal(out, &did); err != nil || did.Revision != revision {
			t.Errorf("%s: %s, %v", era, out, err)
			continue
		}
		if len(did.Questions) != 1 || !strings.Contains(did.Questions[0], "the tool add of the server work") || !strings.Contains(did.Questions[0], "line 3") {
			t.Errorf("%s: the questions are %q", era, did.Questions)
		}
		if r := decode(t, did.Result); r.IsError || !strings.HasPrefix(r.text(), "one two ") {
			t.Errorf("%s: the script ends with %s", era, did.Result)
		}
	}
}

// The scripts of one principal that wait for answers leave room for others.
func TestScriptsOfOnePrincipalAreBounded(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	const one, other = "one-token-0123456789", "other-token-0123456789"
	s := prepare(t, entries{"s": fake("-tools", "pid")}, map[string]any{
		"profiles": map[string]any{"asks": map[string]any{"mode": "code", "ask": "always"}},
		"http": map[string]any{"tokens": []any{
			map[string]any{"token": one, "name": "one", "profile": "asks"}, map[string]any{"token": other, "name": "other", "profile": "asks"},
		}},
	})
	url, _ := s.serveHTTP()
	run := func(token string) string {
		t.Helper()
		c := mcptest.NewHTTPClient(t, url)
		c.Header = http.Header{"Authorization": {"Bearer " + token}}
		c.Declare(personal)
		if _, err := c.Discover(within(t)); err != nil {
			t.Fatal(err)
		}
		r, err := c.Call(within(t), "run_script", map[string]any{"code": `await call("s:pid")`})
		if err != nil {
			t.Fatal(err)
		}
		return string(r)
	}
	for i := range 17 {
		if r := run(one); strings.Contains(r, "BusyError") != (i == 16) {
			t.Fatalf("script %d: %s", i+1, r)
		}
	}
	if r := run(other); !strings.Contains(r, "input_required") {
		t.Errorf("another principal: %s", r)
	}
}

// A client that can't ask runs the script again once an admin has approved the call on the page.
func TestScriptApprovedOnThePage(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"work": fake("-tools", "echo,add")}, map[string]any{
		"mode": "code", "profiles": map[string]any{"default": map[string]any{"tools": map[string]any{"ask": []string{"add"}}}},
	})
	url, _ := s.serveHTTP()
	root := strings.TrimSuffix(url, "/mcp")
	c := mcptest.NewHTTPClient(t, url)
	if _, err := c.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	run := func() result {
		t.Helper()
		raw, err := c.Call(within(t), "run_script", map[string]any{"code": approvedScript})
		if err != nil {
			t.Fatal(err)
		}
		return decode(t, raw)
	}
	if r := run(); !r.IsError || !strings.Contains(r.text(), "call work:add on line 3 needs approval") || !strings.Contains(r.text(), "/#approvals") {
		t.Errorf("before the approval: %s", r.text())
	}
	answer, err := http.Post(root+"/dashboard/approvals/"+s.waitingApproval(root, "")+"/approve", "application/json", strings.NewReader("{}"))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	if r := run(); r.IsError || !strings.HasPrefix(r.text(), "one two ") {
		t.Errorf("after the approval: %s", r.text())
	}
}

// reads reports whether a line has a text.
func reads(r io.Reader, text string) bool {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return true
		}
	}
	return false
}

// oneAtATime reports whether each execution of a ledger, which may not be empty, ends before the next one begins.
func oneAtATime(ledger string) bool {
	ended := true
	for line := range strings.Lines(ledger) {
		if ended = !ended; ended != strings.Contains(line, `"Ended":true`) {
			return false
		}
	}
	return ended && ledger != ""
}
