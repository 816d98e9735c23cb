package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/reload"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// A scriptCase is a configuration whose profiles ask before each call of a tool of ledgers that writes.
type scriptCase struct {
	t            *testing.T
	data, ledger string
	config       config.Config
	told         notebook
}

// pay charges twice the same between two calls that need no approval.
const pay = `const a = await call("s:ledger_read", {id: "before"});
for (const i of [1, 2]) await call("s:ledger_charge", {id: "x"});
return [a, await call("s:ledger_read", {id: "after"})].join();`

// newScripted returns a case whose routers keep in data the compiled interpreter, which takes a quarter of a second.
func newScripted(t *testing.T, data string) *scriptCase {
	s := &scriptCase{t: t, data: data, ledger: filepath.Join(t.TempDir(), "ledger")}
	asks := config.Profile{AskFor: []string{"ledger_put", "ledger_charge", "pay"}}
	s.config.Router.Profiles = map[string]config.Profile{"work": asks, "other": asks}
	s.store(pay)
	return s
}

// store makes the code the stored script "pay".
func (s *scriptCase) store(code string) {
	scripts := config.Server{Name: "scripts", Transport: config.Scripts, StartTimeout: time.Minute}
	scripts.Scripts = []stored.Script{{Name: "pay", Code: code, Description: "Pays.", Input: json.RawMessage(`{"type":"object"}`)}}
	s.config.Servers = []config.Server{walkServer("s", "-tools", "echo,ledger_read,ledger_put,ledger_charge", "-ledger", s.ledger), scripts}
}

// A scriptRouter is a router of a [scriptCase], for the principals ada and bob, and eve with another profile.
type scriptRouter struct {
	*web
	router *adapter.Router
	edits  chan<- config.Config
	http   func(HTTPOptions) // edits the options of HTTP
	people []clientauth.Principal
}

// start starts a router.
func (s *scriptCase) start() *scriptRouter {
	s.t.Helper()
	r := adapter.New(s.config, adapter.Options{Play: play.Server, DataDir: s.data})
	edits := make(chan config.Config)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx, edits) }()
	s.t.Cleanup(func() { cancel(); <-ran })
	profiles := Profiles{
		Open: func(_ View, chosen []string) (Router, Options) {
			view := r.Scope(chosen...)
			live := reload.Follow(r, func(c config.Config) *Options {
				return &Options{Mode: exposure.Direct, Scripts: true, Rules: profile.Existing(c.Router.Profiles, chosen)}
			})
			return view, Options{Live: live, Runner: view, Observer: &s.told}
		},
		Exists: func(chosen string) bool { return r.Scope(chosen).Exists() },
		Edited: r.Edited, Whole: r,
	}
	r.Settled(s.t.Context())
	people := append(tokens("ada", "bob", "eve"), clientauth.Principal{})[:3]
	for i, of := range []string{"work", "work", "other"} {
		people[i].Profile = of
	}
	servers := NewServers(profiles)
	live, edit := editedHTTP(HTTPOptions{Tokens: people})
	return &scriptRouter{serveHandler(s.t, servers.Handler(live), servers.Run), r, edits, edit, people}
}

// executions returns how often each call of a tool of ledgers began, by the argument id.
func (s *scriptCase) executions() map[string]int { return fakeserver.Executions(s.ledger) }

func (s *scriptCase) executed(want map[string]int) {
	s.t.Helper()
	if got := s.executions(); !maps.Equal(got, want) {
		s.t.Errorf("executions %v, want %v", got, want)
	}
}

// A scriptAnswer is the answer to a call: a result, questions or an error.
type scriptAnswer struct {
	Result struct {
		Content                  []struct{ Text string }
		IsError                  bool
		ResultType, RequestState string
		InputRequests            map[string]json.RawMessage
		Meta                     map[string]any `json:"_meta"`
	}
	Error    struct{ Message string }
	raw      string
	progress []string
}

// keys returns the keys of the questions.
func (a scriptAnswer) keys() string {
	return strings.Join(slices.Sorted(maps.Keys(a.Result.InputRequests)), " ")
}

func (a scriptAnswer) wants(t *testing.T, texts ...string) scriptAnswer {
	t.Helper()
	for _, text := range texts {
		expect.Contains(t, a.raw, strings.Trim(fmt.Sprintf("%q", text), `"`))
	}
	return a
}

// A scriptCall is a client's call, which may go on after questions.
type scriptCall struct {
	who, tool string
	arguments map[string]any
	after     scriptAnswer
	action    string
	mute      bool   // the client can't be asked
	marks     string // more members of _meta
}

func (s *scriptCase) code(code string) scriptCall {
	return scriptCall{who: "ada", tool: "run_script", arguments: map[string]any{"code": code}}
}

// answering returns the call that goes on.
func (c scriptCall) answering(a scriptAnswer, action string) scriptCall {
	c.after, c.action = a, action
	return c
}

func (c scriptCall) params() string {
	params := map[string]any{"name": c.tool, "arguments": c.arguments}
	if c.action != "" {
		answers := make(map[string]any)
		for key := range c.after.Result.InputRequests {
			answers[key] = map[string]any{"action": c.action, "content": map[string]any{}}
		}
		params["requestState"], params["inputResponses"] = c.after.Result.RequestState, answers
	}
	meta := askingMeta
	if c.mute {
		meta = modernMeta
	}
	text, _ := json.Marshal(params)
	return strings.TrimPrefix(string(text[:len(text)-1]), "{") + "," + strings.Replace(meta, `"_meta":{`, `"_meta":{`+c.marks, 1)
}

// run makes the call.
func (w *scriptRouter) run(c scriptCall) (a scriptAnswer) {
	w.t.Helper()
	header := append(modernHeaders("tools/call", c.tool), "Authorization", "Bearer "+c.who)
	_, text := w.text(http.MethodPost, "/mcp", rpc("tools/call", c.params()), header...)
	for line := range strings.Lines(text) {
		var note struct {
			Method string
			Params struct {
				Progress float64
				Message  string
			}
		}
		if json.Unmarshal([]byte(line), &note); note.Method == "notifications/progress" && note.Params.Message != "" {
			a.progress = append(a.progress, fmt.Sprint(int(note.Params.Progress), " ", note.Params.Message))
		} else if note.Method == "" {
			a.raw = line
		}
	}
	expect.OK(w.t, json.Unmarshal([]byte(a.raw), &a), "%s", text)
	return a
}

// begin makes the call until the client leaves.
func (w *scriptRouter) begin(c scriptCall) (leave func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(rpc("tools/call", c.params())))
	expect.OK(w.t, err)
	header := append(modernHeaders("tools/call", c.tool), "Authorization", "Bearer "+c.who, "Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := w.client.Do(q); err == nil {
			_, _ = new(bytes.Buffer).ReadFrom(response.Body)
			response.Body.Close()
		}
	}()
	leave = func() { cancel(); <-done }
	w.t.Cleanup(leave)
	return leave
}

// A script waits for its client. An answer is for one call, although the next one asks the same; sent again, it does nothing.
func TestScriptGoesOn(t *testing.T) {
	data := t.TempDir()
	for way, c := range map[string]scriptCall{
		"run_script": {who: "ada", tool: "run_script", arguments: map[string]any{"code": pay}},
		"stored":     {who: "ada", tool: "scripts__pay", arguments: map[string]any{}},
		"both":       {who: "ada", tool: "run_script", arguments: map[string]any{"code": `return await call("scripts:pay", {})`}},
	} {
		t.Run(way, func(t *testing.T) {
			s := newScripted(t, data)
			w := s.start()
			first := w.run(c)
			if way != "run_script" { // the stored script needs approval, too
				first.wants(t, "pay of the server scripts")
				s.executed(map[string]int{})
				first = w.run(c.answering(first, "accept"))
			}
			first.wants(t, "ledger_charge of the server s", "line 2 of a script")
			s.executed(map[string]int{"before": 1})
			second := w.run(c.answering(first, "accept")).wants(t, "line 2 of a script")
			if again := w.run(c.answering(first, "accept")); again.keys() != second.keys() || second.keys() == first.keys() {
				t.Errorf("the first answer again: %s, want %s", again.raw, second.raw)
			}
			s.executed(map[string]int{"before": 1, "x": 1})
			w.run(c.answering(second, "accept")).wants(t, "before,after")
			w.run(c.answering(second, "accept")).wants(t, "the router that held it has ended")
			s.executed(map[string]int{"before": 1, "x": 2, "after": 1})
		})
	}
}

// A script that a client's process sends again, since its router was killed, ends at the first call that may do harm twice, and
// so does the script that has called it.
func TestScriptSentAgain(t *testing.T) {
	data := t.TempDir()
	for name, code := range map[string]string{
		"it": pay, "its caller": `await callSafe("scripts:pay", {}); return "went on"`, "it catches errors": strings.ReplaceAll(pay, "await call(", "await callSafe("),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, data)
			s.config.Router.Profiles = map[string]config.Profile{"work": {}, "other": {}}
			c := s.code(code)
			c.marks = `"metarouter/resent":true,`
			s.start().run(c).wants(t, "LostError", "its effect is unknown", "was lost")
			if got := s.executions(); got["x"] > 0 {
				t.Errorf("executions %v", got)
			}
		})
	}
}

// A state is for one principal, one profile, one script, one input and one router, and for the rules under which the script began.
func TestScriptOfOthers(t *testing.T) {
	s := newScripted(t, t.TempDir())
	w, c := s.start(), s.code(pay)
	asked := w.run(c)
	const notValid = "the requestState is not valid for this request"
	for _, c := range []scriptCall{
		{who: "bob", tool: c.tool, arguments: c.arguments}, {who: "eve", tool: c.tool, arguments: c.arguments},
		{who: "ada", tool: c.tool, arguments: map[string]any{"code": pay + " "}}, {who: "ada", tool: c.tool, arguments: map[string]any{"code": pay, "input": 1}},
	} {
		w.run(c.answering(asked, "accept")).wants(t, notValid)
	}
	s.start().run(c.answering(asked, "accept")).wants(t, notValid, "the router that held it has ended")
	w.run(c.answering(asked, "accept")).wants(t, "line 2 of a script")
	s.executed(map[string]int{"before": 1, "x": 1})

	asked = w.run(c)
	s.config.Router.Profiles = map[string]config.Profile{"work": {Ask: "always"}, "other": {}}
	edited := w.router.Edited()
	w.edits <- s.config
	<-edited
	w.run(c.answering(asked, "accept")).wants(t, notValid)
	s.executed(map[string]int{"before": 2, "x": 1})
}

// A cancelled script stops with its calls.
func TestCancelledScript(t *testing.T) {
	s := newScripted(t, t.TempDir())
	w := s.start()
	asks := s.code(strings.Replace(pay, `"x"`, `"x", ms: 60000`, 1))
	asked := w.run(asks)
	quiet := s.code(`await call("s:ledger_read", {id: "quiet", ms: 60000})`)
	for id, leave := range map[string]func(){"x": w.begin(asks.answering(asked, "accept")), "quiet": w.begin(quiet)} {
		mcptest.WaitFor(t, "the call", func() bool { return s.executions()[id] == 1 })
		leave()
	}
	w.run(asks.answering(asked, "accept")).wants(t, "requestState")
	if done := w.run(s.code(`return await call("s:ledger_read", {id: "last"})`)); !slices.Equal(done.progress, []string{"0 s:ledger_read", "1 s:ledger_read"}) {
		t.Errorf("progress %q", done.progress)
	}
	if text, _ := os.ReadFile(s.ledger); bytes.Count(text, []byte(`"Ended":true`)) != 2 { // before and last
		t.Errorf("the ledger has\n%s", text)
	}
}

// The scripts of one principal that wait leave room for others; questions that come at once are one answer; a script of a
// client that can't be asked is held until an admin has approved its call, and makes no call twice.
func TestScriptsThatWait(t *testing.T) {
	s := newScripted(t, t.TempDir())
	w, c := s.start(), s.code(`await call("s:ledger_charge", {id: "x"})`)
	for range 16 {
		w.run(c).wants(t, "input_required")
	}
	w.run(c).wants(t, "BusyError")
	c.who = "bob"
	w.run(c).wants(t, "input_required")

	both := s.code(`return (await Promise.all([1, 2].map(i => call("s:ledger_charge", {id: "at once" + i})))).join()`)
	both.who = "eve"
	asked := w.run(both)
	if len(asked.Result.InputRequests) != 2 {
		t.Fatalf("two questions are expected: %s", asked.raw)
	}
	one := asked
	one.Result.InputRequests = map[string]json.RawMessage{strings.Fields(asked.keys())[0]: nil}
	rest := w.run(both.answering(one, "accept"))
	expect.Equal(t, rest.keys(), strings.Fields(asked.keys())[1], "after one of two answers: %s", rest.raw)
	w.run(both.answering(rest, "accept")).wants(t, "at once1,at once2")

	mute := scriptCall{who: "eve", tool: "run_script", arguments: map[string]any{"code": "\n\n" + strings.Replace(pay, "[1, 2]", "[1]", 1)}, mute: true}
	desk := w.router.Approvals()
	answer := func(said approval.Answer) {
		t.Helper()
		for _, waiting := range desk.List() {
			if waiting.Principal == "eve" && waiting.Tool == "ledger_charge" {
				if err := desk.Decide(waiting.ID, said, "ops"); err != nil {
					t.Error(err)
				}
				return
			}
		}
		t.Error("no call waits on the page")
	}
	held := w.run(mute)
	if told := s.told.called[len(s.told.called)-1]; told.Outcome != execute.NotApproved || !strings.Contains(told.Fault, "is held") {
		t.Errorf("observers were notified of %+v", told)
	}
	held.wants(t, "The script is held", "/#approvals", `call run_script with {"resume": "`, "No call took effect so far.")
	answer(approval.Accept)
	resume := mute
	resume.arguments = map[string]any{"resume": held.Result.Meta["metarouter/script"]}
	w.run(resume).wants(t, "before,after")
	stranger := resume
	stranger.who = "bob"
	w.run(stranger).wants(t, "NotHeldError")

	mute.arguments = map[string]any{"code": `let done = 0; for (const i of [1, 2, 3]) { await call("s:ledger_charge", {id: "all" + i}); done++ } return done + " are done"`}
	w.run(mute).wants(t, "The script is held")
	answer(approval.Accept)
	w.run(mute).wants(t, "The script is held", "These calls took effect so far, in order: s:ledger_charge") // the same call goes on, too
	answer(approval.AcceptAll)
	w.run(mute).wants(t, "3 are done")
	s.executed(map[string]int{"at once1": 1, "at once2": 1, "before": 1, "x": 1, "after": 1, "all1": 1, "all2": 1, "all3": 1})
}

// A held script ends with the token of its client, though no request of the client is under way: its call is not made any more.
func TestHeldScriptOfRevokedToken(t *testing.T) {
	s := newScripted(t, t.TempDir())
	w := s.start()
	for _, who := range []string{"ada", "bob"} {
		c := s.code(pay)
		c.who, c.mute = who, true
		w.run(c).wants(t, "The script is held")
	}
	w.http(HTTPOptions{Tokens: w.people[1:]})
	w.text(http.MethodPost, "/mcp/ping", "{}", bearer("bob")...)
	mcptest.WaitFor(t, "the end of the script", func() bool { return len(w.router.Approvals().List()) == 1 })
	expect.Equal(t, w.router.Approvals().List()[0].Principal, "bob", "the client whose call waits")
}

// The call of a stored script by call_tool is observed where it is executed, and not as another call, also of a client that
// can't be asked.
func TestObservedStoredScript(t *testing.T) {
	s := newScripted(t, t.TempDir())
	s.store(`return await call("s:ledger_read", {id: "x"})`)
	s.config.Servers[1].Scripts[0].Input = json.RawMessage(`{"type":"object","properties":{"n":{"type":"boolean"}}}`)
	s.config.Router.Profiles = map[string]config.Profile{"work": {}, "other": {}}
	w := s.start()
	for _, mute := range []bool{false, true} {
		w.run(scriptCall{who: "ada", tool: "call_tool", arguments: map[string]any{"tool": "scripts:pay"}, mute: mute})
		expect.Equal(t, len(s.told.called), 0, "calls of our own tools, mute %v", mute)
	}
	_, text := w.text(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":{"tool":"scripts:pay","arguments":{"n":"no"}}}}`, bearer("ada")...)
	expect.Contains(t, text, `"tool":"scripts:pay","problems"`, "arguments that do not fit")
	expect.Equal(t, len(s.told.called), 0, "calls of our own tools by plain JSON-RPC")
}
