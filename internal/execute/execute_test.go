package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
	hostile "github.com/mcp-metarouter/metarouter/test/schemas"
)

// A stub is a server with one session, or with none.
type stub struct {
	call   func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
	absent error
	policy Policy
	ended  chan struct{} // closed with the session; nil if it does not end

	mu    sync.Mutex      // guards what follows
	meta  json.RawMessage // of the last call
	asked int             // how often a session was asked for
	state status.State
}

func (s *stub) Session(_ context.Context, _ string, _ session.Client) (session.Session, error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	if s.absent != nil {
		return nil, s.absent
	}
	return live{stub: s}, nil
}
func (s *stub) Policy(string) Policy      { return s.policy }
func (s *stub) State(string) status.State { return s.state }

// late ends with its call.
func late(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// live is a stub's session.
type live struct {
	session.Session // what execution has no use for
	stub            *stub
}

func (s live) Done() <-chan struct{} { return s.stub.ended }

func (live) Info() session.Info { return session.Info{Version: "1.2.3"} }
func (s live) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	s.stub.mu.Lock()
	s.stub.meta = r.Meta
	s.stub.mu.Unlock()
	return s.stub.call(ctx, r.Params)
}

func tool(schema string) *registry.NormalizedTool {
	return &registry.NormalizedTool{
		ID: "srv:renamed", Server: "srv", Name: "renamed", Original: "original", InputSchema: json.RawMessage(schema),
	}
}

const object = `{"type":"object"}`

func newExecutor(r *registry.Registry, s Sessions) *Executor {
	return New(Options{Registry: r, Sessions: s, Node: func() string { return "node" }, Log: zap.NewNop()})
}

func execute(t *testing.T, s *stub, c Call) (Result, error) {
	t.Helper()
	return newExecutor(registry.New(), s).Execute(t.Context(), c)
}

func textOf(r Result) string {
	var v struct{ Content []struct{ Text string } }
	if json.Unmarshal(r.JSON, &v) != nil || len(v.Content) == 0 {
		return ""
	}
	return v.Content[0].Text
}

func TestExecutePassesBytes(t *testing.T) {
	const theirs = `{"z":12345678901234567890,"content":[{"type":"hologram","x":1e400}],"_meta":{"own":"\u00e9","server":"liar"},"a":[]}`
	const trace = `{"traceparent":"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"}`
	var sent string
	s := &stub{call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
		sent = string(params)
		return json.RawMessage(theirs), nil
	}}
	r, err := execute(t, s, Call{
		Tool:      tool(object),
		Arguments: json.RawMessage("{\"b\": 1.0,\n\"a\":\"é\"}"),
		Params:    json.RawMessage(`{"name":"x","arguments":{},"task":{"ttl":5}, "_meta":{"not":"this"}}`),
		Meta:      json.RawMessage(trace),
	})
	if err != nil || r.IsError {
		t.Fatalf("Execute = %s, %v", r.JSON, err)
	}
	if want := `{"name":"original","arguments":{"b":1.0,"a":"é"},"task":{"ttl":5}}`; sent != want || string(s.meta) != trace {
		t.Errorf("sent %s with %s\nwant %s with %s", sent, s.meta, want, trace)
	}
	expect.Equal(t, string(wire.SetMember(r.JSON, "_meta", []byte("0"))), string(wire.SetMember([]byte(theirs), "_meta", []byte("0"))), "the result beside _meta")
	meta := wire.Member(r.JSON, "_meta")
	for key, want := range map[string]string{
		"own": `"\u00e9"`, "server": `"srv"`, "trace_id": `"0123456789abcdef0123456789abcdef"`, "tool_name": `"original"`,
		"tool_version": `"1.2.3"`, "node_id": `"node"`, "execution_path": `["local"]`, "verified": "false", "arguments_checked": "true", "degraded": "false", "attempts": "1",
	} {
		expect.Equal(t, string(wire.Member(meta, key)), want, "_meta.%s", key)
	}
	stamp, _ := wire.String(wire.Member(meta, "timestamp"))
	if at, err := time.Parse(time.RFC3339, stamp); err != nil || !strings.HasSuffix(stamp, "Z") || time.Since(at) > time.Hour {
		t.Errorf("_meta.timestamp = %s", stamp)
	}
}

// A result says the version of the server even if that was not asked.
func TestVersionOfRefusal(t *testing.T) {
	r := registry.New()
	strict := tool(`{"type":"object","required":["n"]}`)
	strict.ID = "srv:renamed"
	_, err := r.Replace("srv", registry.Offer{Tools: []registry.NormalizedTool{*strict}, Version: "3.1"})
	expect.OK(t, err)
	result, err := newExecutor(r, &stub{}).Execute(t.Context(), Call{Tool: strict})
	if got, _ := wire.String(wire.Member(result.Meta(), "tool_version")); err != nil || !result.IsError || got != "3.1" {
		t.Errorf("%s, %v", result.JSON, err)
	}
}

func TestExecuteValidates(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"},"list":{"type":"array","items":{"type":"string"}}},"required":["n"],"additionalProperties":false}`
	const draft4 = `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"type":"number","maximum":3,"exclusiveMaximum":true}}}`
	const values = `{"type":"object","properties":{"list":{"type":"array"},"n":{"type":"integer"},"x":{"type":"number"},"on":{"type":"boolean"},"s":{"type":"string"},
		"o":{"type":"object","properties":{"inner":{"type":"object","properties":{"k":{"type":"integer"}}}}},"maybe":{"anyOf":[{"type":"array"},{"type":"null"}]},
		"level":{"enum":[1,2]},"text":{"anyOf":[{"type":"string","maxLength":3},{"type":"integer"}]},"map":{"type":"object","additionalProperties":{"type":"string"}},
		"either":{"anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}]},
		"allow_destructive":{"type":"boolean"}},"additionalProperties":false}`
	const schemaOfAgreement = `{"type":"object","properties":{"n":{"type":"integer"},"run_anyway":{"type":"boolean"}},"required":["n"]}`
	const defaults = `{"type":"object","properties":{"url":{"type":"string"},"level":{"type":["integer","null"],"default":null},"scale":{"type":"string","default":"css"},
		"o":{"type":"object","properties":{"p":{"type":"object","properties":{"k":{"type":"integer","default":2}},"required":["k"]}}},
		"either":{"oneOf":[{"properties":{"a":{"default":1}},"required":["a"]},{"properties":{"b":{"default":1}},"required":["b"]}]}},"required":["url","level","scale"]}`
	for _, tc := range []struct {
		name, schema, args string
		sent               string   // "" if nothing may be sent
		says               []string // in the refusal
		repaired           bool
	}{
		{"fits", schema, `{"n":1}`, `{"n":1}`, nil, false},
		{"absent", object, ``, `{}`, nil, false},
		{"missing", schema, ``, "", []string{"'n'", "nothing was called", "Schema: {"}, false},
		{"wrong type, with its path", schema, `{"n":1,"list":["a",2]}`, "", []string{"arguments.list.1: got number, want string"}, false},
		{"no object", object, `[1]`, "", []string{"expected an object"}, false},
		{"nested", schema, `{"arguments":{"n":1}}`, "", []string{"'n'"}, false}, // see TestWrapped
		{"nested beside other arguments", schema, `{"input":{"n":1},"list":[]}`, "", []string{"'n'"}, false},
		{"a string", schema, `"{\"n\":1}"`, `{"n":1}`, nil, true},
		{"with Gemini's own argument", schema, `{"n":1,"wait_for_previous":true}`, `{"n":1}`, nil, true},
		{"with an argument of the same name", `{"type":"object","properties":{"wait_for_previous":{"type":"integer"}}}`, `{"wait_for_previous":true}`, "", []string{"arguments.wait_for_previous"}, false},
		{"defaults", defaults, `{"url":"u"}`, `{"url":"u","level":null,"scale":"css"}`, nil, true},
		{"defaults of objects that are present", defaults, `{"url":"u","level":1,"scale":"x","o":{"p":{}}}`, `{"url":"u","level":1,"scale":"x","o":{"p":{"k":2}}}`, nil, true},
		{"a default of the first branch", defaults, `{"url":"u","level":1,"scale":"x","either":{}}`, `{"url":"u","level":1,"scale":"x","either":{"a":1}}`, nil, true},
		{"a default that does not fit", `{"type":"object","properties":{"s":{"type":"string","default":null},"n":{}},"required":["s"]}`, `{"n":1}`, `{"n":1}`, nil, false},
		{"missing besides defaults", defaults, `{"scale":"x"}`, "", []string{"missing property 'url'"}, false},
		{"a misspelt required one", defaults, `{"urls":"u","scale":"x"}`, "", []string{`missing property 'url'; did you mean "url" instead of "urls"?`}, false},
		{"a misspelt one", values, `{"n":1,"lst":[],"y":1}`, "", []string{`additional properties 'lst', 'y' not allowed; did you mean "list" instead of "lst"?`}, false},
		{"a misspelt one within", `{"type":"object","properties":{"o":{"type":"array","items":{"required":["name"]}}}}`, `{"o":[{"nane":1}]}`, "", []string{`arguments.o.0: missing property 'name'; did you mean "name" instead of "nane"?`}, false},
		{"a long misspelt one", `{"required":["` + strings.Repeat("x", 60) + `"]}`, `{"` + strings.Repeat("x", 61) + `":1}`, "", []string{"xx'\n"}, false},
		{"a string of JSON next to a pattern", `{"properties":{"p":{"pattern":"(?=a)"},"o":{"oneOf":[{"type":"object"},{"type":"null"}]},"d":{"default":1}},"required":["d"]}`, `{"p":"b","o":"{}"}`, `{"p":"b","o":{},"d":1}`, nil, true},
		{"another one of a letter", schema, `{"m":1}`, "", []string{"missing property 'n'\n", "'m' not allowed\n"}, false},
		{"as given where that fits", object, `{"arguments":{"n":1}}`, `{"arguments":{"n":1}}`, nil, false},
		{"values as strings of JSON", values, `{"list":"[\"a\", 7]","o":"{\"a\": [1]}"}`, `{"list":["a", 7],"o":{"a": [1]}}`, nil, true},
		{"a number as a string", values, `{"n":"5"}`, "", []string{"arguments.n"}, false},
		{"null for an optional one", values, `{"n":1,"on":null}`, "", []string{"arguments.on"}, false},
		{"strings in strings", values, `{"o":"{\"inner\":\"{\\\"k\\\":7}\"}"}`, `{"o":{"inner":{"k":7}}}`, nil, true},
		{"a choice of types", values, `{"maybe":"[1]"}`, `{"maybe":[1]}`, nil, true},
		{"an enumeration of numbers", values, `{"level":"2"}`, "", []string{"arguments.level"}, false},
		{"other bytes stay", values, `{"list":"[]", "s":"\u0041","x":1.50}`, `{"list":[],"s":"\u0041","x":1.50}`, nil, true},
		{"a wanted string", values, `{"text":"12345","n":1}`, "", []string{"arguments.text"}, false},
		{"one that is wanted by another branch", values, `{"either":{"a":"1","b":7}}`, "", []string{"arguments.either"}, false},
		{"a required null", schema, `{"n":null}`, "", []string{"arguments.n: got null"}, false},
		{"a null in a list", schema, `{"n":1,"list":[null]}`, "", []string{"arguments.list.0"}, false},
		{"a null under a name of its own", values, `{"map":{"a":null}}`, "", []string{"arguments.map.a"}, false},
		{"a string that is no JSON", schema, `{"n":"five"}`, "", []string{"arguments.n"}, false},
		{"a string of another type", schema, `{"n":"[5]"}`, "", []string{"arguments.n"}, false},
		{"a string for null", schema, `{"n":"null"}`, "", []string{"arguments.n"}, false},
		{"an agreement in a string", values, `{"allow_destructive":"true","n":1}`, "", []string{"arguments.allow_destructive"}, false},
		{"a nested agreement", schemaOfAgreement, `{"input":{"n":1,"run_anyway":true}}`, "", []string{"'n'"}, false},
		{"an agreement as given", values, `{"allow_destructive":true,"list":"[]"}`, `{"allow_destructive":true,"list":[]}`, nil, true},
		{"another draft", draft4, `{"n":3}`, "", []string{"arguments.n"}, false},
		{"a schema that can't be compiled", `{"type":"object","properties":{"n":{"type":"nonsense"}}}`, `{"n":1}`, `{"n":1}`, nil, false},
		{"a costly schema", `{"type":"object","required":["n"],"anyOf":[{"$ref":"#"}]}`, `{}`, `{}`, nil, false},
		{"a reference to the network", `{"type":"object","$ref":"http://127.0.0.1:1/x.json"}`, `{"n":1}`, `{"n":1}`, nil, false},
		{"a pattern that no engine knows", `{"type":"object","properties":{"s":{"type":"string","pattern":"b++"}}}`, `{"s":"b"}`, `{"s":"b"}`, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var sent json.RawMessage
			s := &stub{call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
				sent = wire.Member(params, "arguments")
				return json.RawMessage(`{"content":[]}`), nil
			}}
			r, err := execute(t, s, Call{Tool: tool(tc.schema), Arguments: json.RawMessage(tc.args)})
			if err != nil || string(sent) != tc.sent || r.IsError != (tc.sent == "") || r.IsError != (len(r.Mismatch) > 0) {
				t.Fatalf("sent %s, answered %s, %v", sent, r.JSON, err)
			}
			for _, want := range tc.says {
				expect.Contains(t, textOf(r), want, "the refusal")
			}
			noted, repaired := wire.Member(r.Meta(), "repaired") != nil, string(wire.Member(r.Meta(), "arguments_repaired")) == "true"
			if noted != tc.repaired || repaired != tc.repaired {
				t.Errorf("repaired: %v, noted: %v, want %v", repaired, noted, tc.repaired)
			}
		})
	}
}

// A server gets arguments that were not or could not be checked, and the result does not say that they were.
func TestExecuteUnchecked(t *testing.T) {
	const strict = `{"type":"object","required":["m"]}`
	for _, tc := range []struct {
		validate     Validate
		schema, args string
	}{
		{Warn, strict, `{"n":1}`}, {Off, strict, `{"n":1}`},
		{Strict, strict, `{"n":[0` + strings.Repeat(",0", 200_000) + `]}`}, {Strict, `{"type":7}`, `{"n":1}`},
	} {
		got := ""
		s := &stub{policy: Policy{Validate: tc.validate}, call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
			got = string(wire.Member(params, "arguments"))
			return json.RawMessage(`{"content":[]}`), nil
		}}
		r, err := execute(t, s, Call{Tool: tool(tc.schema), Arguments: json.RawMessage(tc.args)})
		if err != nil || r.IsError || len(r.Mismatch) > 0 || got != tc.args || string(wire.Member(r.Meta(), "arguments_checked")) != "false" {
			t.Errorf("mode %d, %s: %s, %v; sent %.100s", tc.validate, tc.schema, r.JSON, err, got)
		}
	}
}

func TestExecuteFailures(t *testing.T) {
	refusal := &session.Error{Code: -32042, Message: "no", Data: json.RawMessage(`[1]`)}
	for _, tc := range []struct {
		name  string
		stub  *stub
		says  string // in a tool error; "" if the error is passed on
		asked int
	}{
		{"the server refuses", &stub{call: answers("", refusal)}, "", 1},
		{"the server dies", &stub{call: answers("", fmt.Errorf("%w: exited with status 9", session.ErrClosed))}, `server "srv" ended during the call: session closed: exited with status 9`, 1},
		{"the server is down", &stub{absent: fmt.Errorf("server is failed: no licence: %w", session.ErrNotSent)}, "no licence", 1},
		{"no session lives long enough", &stub{call: answers("", session.ErrNotSent)}, "not sent", maxAttempts},
		{"nonsense", &stub{call: answers(`[]`, nil)}, "no result object", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := execute(t, tc.stub, Call{Tool: tool(object)})
			if tc.says == "" {
				if got, ok := errors.AsType[*session.Error](err); !ok || got != refusal {
					t.Errorf("error %v, want the server's own", err)
				}
			} else if err != nil || !r.IsError || !strings.Contains(textOf(r), tc.says) {
				t.Errorf("answered %s, %v, want %q", r.JSON, err, tc.says)
			}
			expect.Equal(t, tc.stub.asked, tc.asked, "attempts")
		})
	}
}

// A call that a router which has ended may have made is made again only if that does no harm.
func TestExecuteResent(t *testing.T) {
	reads := tool(object)
	reads.Hints.ReadOnly = new(true)
	for name, tc := range map[string]struct {
		tool   *registry.NormalizedTool
		policy Policy
		runs   bool
	}{
		"may do harm":         {tool(object), Policy{Retry: IfHarmless}, false},
		"reads":               {reads, Policy{Retry: IfHarmless}, true},
		"reads, and never":    {reads, Policy{Retry: NeverRetry}, false},
		"may do harm, always": {tool(object), Policy{Retry: AlwaysRetry}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{policy: tc.policy, call: answers(`{}`, nil)}
			_, err := execute(t, s, Call{Tool: tc.tool, Meta: json.RawMessage(`{"k":1,"metarouter/resent":true}`)})
			if ran := s.asked > 0; ran != tc.runs || ran == errors.Is(err, session.ErrEnded) {
				t.Errorf("it ran: %v, %v", ran, err)
			}
			if tc.runs && string(s.meta) != `{"k":1}` {
				t.Errorf("the server got %s", s.meta)
			}
		})
	}
}

// A tool's own limits come before its server's: those under its name, else under the
// longest pattern.
func TestPolicyForTool(t *testing.T) {
	p := Policy{
		Timeout:         time.Minute,
		Timeouts:        map[string]time.Duration{"*": 2, "slow_*": 3, "slow_[ab]": 4, "slow_?z": 5, "slow_az": 6, "a?": 7, "?a": 8},
		MaxResultTokens: 100,
		ResultTokens:    map[string]int{"page*": 0, "page_1": 7},
	}
	for name, want := range map[string]struct {
		time    time.Duration
		pattern string
		tokens  int
	}{
		"other": {2, "*", 100}, "slow_x": {3, "slow_*", 100}, "slow_a": {4, "slow_[ab]", 100}, "slow_bz": {5, "slow_?z", 100},
		"slow_az": {6, "slow_az", 100}, "aa": {8, "?a", 100}, "page": {2, "*", 0}, "page_1": {2, "*", 7},
	} {
		tool := &registry.NormalizedTool{Name: "renamed", Original: name}
		if limit, pattern := p.timeout(tool); limit != want.time || pattern != want.pattern {
			t.Errorf("%s may take %d by %q, want %d by %q", name, limit, pattern, want.time, want.pattern)
		}
		expect.Equal(t, resultLimit(tool, &p, 1<<30), want.tokens, "%s may say … tokens", name)
	}
	if limit, pattern := p.timeout(nil); limit != time.Minute || pattern != "" {
		t.Errorf("another request may take %v by %q", limit, pattern)
	}
	declares := &registry.NormalizedTool{Original: "page_1", Definition: json.RawMessage(`{"_meta":{"anthropic/maxResultSizeChars":4000}}`)}
	expect.Equal(t, resultLimit(declares, &p, 1<<30), 7, "tokens that one that declares more may say")
}

// A call that waits for its server says in time for the client what it waited for.
func TestExecuteStartWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, err := newExecutor(registry.New(), starting{}).Execute(t.Context(), Call{Tool: tool(object)})
		if want := "npx is fetching pkg, for 50s; waited 45s for it, try again in a minute"; err != nil || !r.IsError || !strings.Contains(textOf(r), want) {
			t.Errorf("answered %s, %v", textOf(r), err)
		}
		expect.Equal(t, time.Since(began), StartWait, "after")
	})
}

// Starting is a server that does not become ready.
type starting struct{}

func (starting) Session(ctx context.Context, _ string, _ session.Client) (session.Session, error) {
	<-ctx.Done()
	return nil, fmt.Errorf(`%w: server "srv" is starting: npx is fetching pkg, for 50s`, session.ErrNotSent)
}
func (starting) Policy(string) Policy      { return Policy{} }
func (starting) State(string) status.State { return status.Starting }

func TestExecuteDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{policy: Policy{Timeout: time.Minute}, call: late}
		r, err := execute(t, s, Call{Tool: tool(object)})
		if err != nil || !r.IsError || !strings.Contains(textOf(r), `"srv" did not answer original within 1m`) {
			t.Errorf("after the time-out: %s, %v", r.JSON, err)
		}
		began := time.Now()
		s = &stub{policy: Policy{Timeout: time.Minute, Timeouts: map[string]time.Duration{"orig*": time.Hour}}, call: late}
		r, err = execute(t, s, Call{Tool: tool(object)})
		if err != nil || time.Since(began) != time.Hour || !strings.Contains(textOf(r), `within 1h0m0s, and the call was cancelled; a longer time can be set in its entry, in "tools", "timeout", "orig*"`) {
			t.Errorf("after the tool's own time: %s, %v", r.JSON, err)
		}
		// A call whose turn does not come in its time is not tried again.
		s = &stub{policy: Policy{Timeout: time.Minute}, call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, context.Cause(ctx))
		}}
		began = time.Now()
		r, err = execute(t, s, Call{Tool: tool(object)})
		if err != nil || !r.IsError || s.asked != 1 || time.Since(began) != time.Minute {
			t.Errorf("a call that was never sent: %s, %v, %d attempts in %v", r.JSON, err, s.asked, time.Since(began))
		}
		s = &stub{policy: Policy{Timeout: time.Minute}, call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", session.ErrOpenEvent, context.Cause(ctx))
		}}
		if r, err = execute(t, s, Call{Tool: tool(object)}); err != nil || !strings.Contains(textOf(r), "within 1m0s, and the call was cancelled: its event stream has an event without blank line") {
			t.Errorf("an event without its end: %s, %v", r.JSON, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client left")
		go cancel(left)
		if _, err := newExecutor(registry.New(), s).Execute(ctx, Call{Tool: tool(object)}); !errors.Is(err, left) {
			t.Errorf("a cancelled call: %v", err)
		}
	})
}

// A comparison that takes too many steps is given up, has not passed, and is logged once.
func TestCheckIsBounded(t *testing.T) {
	const ways = `{"properties":{"a":{"$ref":"#"}}}`
	core, logs := observer.New(zap.WarnLevel)
	e := New(Options{Registry: registry.New(), Log: zap.New(core)})
	tool := tool(`{"type":"object","allOf":[` + ways + "," + ways + "," + ways + `]}`)
	args := json.RawMessage(strings.Repeat(`{"a":`, 50) + `{}` + strings.Repeat("}", 50))
	for range 3 {
		if c := e.Check(t.Context(), tool, args); !c.Unchecked || len(c.Faults) != 1 || c.passed() || c.Repaired != "" || string(c.Arguments) != string(args) {
			t.Errorf("unchecked %v, faults %.200q, repaired %q", c.Unchecked, c.Faults, c.Repaired)
		}
	}
	expect.Equal(t, logs.FilterField(zap.String("tool", tool.ID)).Len(), 1, "logged … times")
	if c := e.Check(t.Context(), tool, json.RawMessage(`{"a":1}`)); len(c.Faults) == 0 || c.Unchecked {
		t.Errorf("a comparison that ends in time: %+v", c)
	}
}

// Long strings are not decoded to be checked, unless the schema looks into them.
func TestCheckOfLongArguments(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	for _, tc := range []struct {
		schema string
		args   string
		fault  string // "" for none
	}{
		{`{"properties":{"format":{"type":"string"},"n":{"type":"integer"}}}`, `{"format":"` + long + `","n":1}`, ""},
		{`{"properties":{"format":{"type":"string"},"n":{"type":"integer"}}}`, `{"format":"` + long + `","n":"1"}`, "arguments.n"},
		{`{"properties":{"s":{"type":"integer"}}}`, `{"s":"` + long + `"}`, "arguments.s"},
		{`{"properties":{"s":{"minLength":19000}}}`, `{"s":"` + long + `"}`, ""},
		{`{"properties":{"s":{"minLength":21000}}}`, `{"s":"` + long + `"}`, "arguments.s"},
		{`{"properties":{"s":{"enum":["` + long + `"]}}}`, `{"s":"` + long + `"}`, ""},
		{`{"properties":{"s":{"items":{"maxLength":9000}}}}`, `{"s":["` + long + `"]}`, "arguments.s.0"},
		{`{"$defs":{"d":{"pattern":"^y"}},"properties":{"s":{"$ref":"#/$defs/d"}}}`, `{"s":"` + long + `"}`, "arguments.s"},
		{`{"properties":{"s":{"uniqueItems":true}}}`, `{"s":["` + long + `","` + long + `y"]}`, ""},
		{`{"properties":{"s":{"uniqueItems":true}}}`, `{"s":["` + long + `","` + long + `"]}`, "arguments.s"},
	} {
		all := newSchemas(Options{Registry: registry.New(), Log: zap.NewNop()})
		c := &all
		s := c.of(&registry.NormalizedTool{ID: "a:b", InputSchema: json.RawMessage(tc.schema)})
		faults, _, _ := s.check(t.Context(), json.RawMessage(tc.args))
		if (len(faults) > 0) != (tc.fault != "") || tc.fault != "" && !strings.HasPrefix(faults[0], tc.fault+":") {
			t.Errorf("%.100s: faults %.200v, want %q", tc.schema, faults, tc.fault)
		}
	}
}

// TestHostileSchemas checks that arguments are compared with hostile schemas in a bounded
// number of steps. Without the bounds, the test does not end.
func TestHostileSchemas(t *testing.T) {
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `,"P%d":1`, i)
	}
	args := json.RawMessage(`{"a":{"a":{"a":{"a":{"b":[[[]]]}}}}` + many.String() + `}`)
	e := New(Options{Registry: registry.New(), Log: zap.NewNop()})
	for name, schema := range hostile.Hostile() {
		if c := e.Check(t.Context(), tool(schema), args); len(c.Faults) > 10 {
			t.Errorf("%s: %d faults", name, len(c.Faults))
		}
	}
}

// TestLargeArguments checks that large arguments wait until others are compared, no longer than
// their call, and that small ones do not wait.
func TestLargeArguments(t *testing.T) {
	e := New(Options{Registry: registry.New(), Log: zap.NewNop()})
	wrong := tool(`{"required":["b"]}`)
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", largeArguments) + `"}`)
	for range maxLarge {
		e.schemas.large <- struct{}{}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c := e.Check(ended, wrong, large); !c.Unchecked || c.passed() {
		t.Errorf("while others are compared: %+v", c)
	}
	if c := e.Check(t.Context(), wrong, json.RawMessage(`{}`)); len(c.Faults) == 0 || c.Unchecked {
		t.Error("small arguments were not compared")
	}
	<-e.schemas.large
	if c := e.Check(t.Context(), wrong, large); len(c.Faults) == 0 || c.Unchecked {
		t.Error("large arguments were not compared")
	}
	expect.Equal(t, len(e.schemas.large), maxLarge-1, "are being compared")
}
