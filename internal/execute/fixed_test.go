package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	whole   = `{"type":"object","properties":{"owner":{"type":"string"},"n":{"type":"integer"}},"required":["owner"],"additionalProperties":false}`
	reduced = `{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`
)

// fixed returns a tool as a profile has it that fixes arguments.
func fixed(t *registry.NormalizedTool, arguments string) *registry.NormalizedTool {
	c := *t
	c.ServerSchema, c.InputSchema, c.Fixed = t.InputSchema, json.RawMessage(reduced), json.RawMessage(arguments)
	return &c
}

// TestFixed calls a tool for which a profile fixes the argument owner.
func TestFixed(t *testing.T) {
	const refused = `"owner" is fixed by the profile; leave it out`
	many := strings.Repeat(",0", 200_000)
	for _, test := range []struct {
		name     string
		validate Validate
		fixed    string
		args     string
		sent     string // "" if the server is not called
		fault    string
	}{
		{"nothing else", Strict, `{"owner":"acme"}`, ``, `{"owner":"acme"}`, ""},
		{"another argument", Strict, `{"owner":"acme"}`, `{"n":1}`, `{"n":1,"owner":"acme"}`, ""},
		{"the fixed one", Strict, `{"owner":"acme"}`, `{"owner":"evil"}`, "", refused},
		{"the fixed one, equal", Strict, `{"owner":"acme"}`, `{"owner":"acme"}`, "", refused},
		{"escaped", Off, `{"owner":"acme"}`, `{"\u006fwner":"evil"}`, "", refused},
		{"in capitals", Off, `{"owner":"acme"}`, `{"OWNER":"evil"}`, "", `"OWNER" is fixed by the profile; leave it out`},
		{"faults are only logged", Warn, `{"owner":"acme"}`, `{"owner":"evil"}`, "", refused},
		{"another fault is only logged", Warn, `{"owner":"acme"}`, `{"n":"x"}`, `{"n":"x","owner":"acme"}`, ""},
		{"nothing is checked", Off, `{"owner":"acme"}`, `{"owner":"evil"}`, "", refused},
		{"nothing is checked, and nothing sent", Off, `{"owner":"acme"}`, `{"n":"x"}`, `{"n":"x","owner":"acme"}`, ""},
		{"the fixed one, nested", Strict, `{"owner":"acme"}`, `{"arguments":{"owner":"evil"}}`, "", `arguments`},
		{"a text", Strict, `{"owner":"acme"}`, `"{\"n\":1}"`, `{"n":1,"owner":"acme"}`, ""},
		{"the fixed one in a text", Strict, `{"owner":"acme"}`, `"{\"owner\":\"evil\"}"`, "", `expected an object`},
		{"another argument that does not fit", Strict, `{"owner":"acme"}`, `{"n":"x"}`, "", "arguments.n"},
		{"several, and a value that is no text", Strict, `{"owner":"acme","n":7}`, `{}`, `{"owner":"acme","n":7}`, ""},
		{"a value that does not fit", Strict, `{"owner":7}`, `{}`, "", "arguments.owner"},
		{"no JSON", Off, `{"owner":"acme"}`, `{"n":`, "", "not valid JSON"},
		{"too many values to be checked", Strict, `{"owner":"acme"}`, `{"n":[0` + many + `]}`, `{"n":[0` + many + `],"owner":"acme"}`, ""},
		{"the fixed one, and too many values", Strict, `{"owner":"acme"}`, `{"n":[0` + many + `],"owner":"evil"}`, "", refused},
		{"no JSON, and too many values", Strict, `{"owner":"acme"}`, `{"n":[0` + many, "", "not valid JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent := ""
			s := &stub{policy: Policy{Validate: test.validate}, call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
				sent = string(params)
				return json.RawMessage(fine), nil
			}}
			clone := fixed(tool(whole), test.fixed)
			approved := ""
			r, err := execute(t, s, Call{
				Tool: clone, Arguments: json.RawMessage(test.args),
				Approve: func(_ context.Context, args json.RawMessage) error { approved = string(args); return nil },
			})
			if err != nil || approved != test.sent {
				t.Fatalf("approved is %.100s, want %.100s; %v", approved, test.sent, err)
			}
			want := ""
			if test.sent != "" {
				want = `{"name":"original","arguments":` + test.sent + `}`
			}
			expect.Equal(t, sent, want, "sent")
			if r.IsError != (test.fault != "") || !strings.Contains(textOf(r), test.fault) {
				t.Errorf("answer is %s, want %q", r.JSON, test.fault)
			}
			if r.IsError && strings.Contains(textOf(r), "acme") {
				t.Errorf("answer has the fixed value: %s", r.JSON)
			}
		})
	}
}

// FuzzFixed has a server read the arguments, as one that ignores the case of names and takes the last
// of several members: whatever a client sends, the fixed value wins.
func FuzzFixed(f *testing.F) {
	for _, args := range []string{``, `{}`, `{"owner":1}`, `{"Owner":1}`, `{"\u006fwner":1,"n":2}`, `{"own\u0065r":1}`, `{"n":1} `, `[]`, `{"n":1,"n":2}`, `{"\ud800":1}`} {
		f.Add([]byte(args))
	}
	clone := fixed(tool(whole), `{"owner":"acme"}`)
	all := newSchemas(Options{Registry: registry.New(), Log: zap.NewNop()})
	compiled := all.of(clone)
	f.Fuzz(func(t *testing.T, args []byte) {
		c := unchecked(clone, compiled, args)
		if c.refused || !wire.IsObject(c.Arguments) || !json.Valid(c.Arguments) || !wire.Valid(c.Arguments) {
			return
		}
		var read struct{ Owner any }
		var all map[string]json.RawMessage
		expect.OK(t, json.Unmarshal(c.Sent, &all), "%s becomes %s", args, c.Sent)
		if err := json.Unmarshal(c.Sent, &read); err != nil || read.Owner != "acme" || string(all["owner"]) != `"acme"` {
			t.Errorf("%s becomes %s, which a server reads as %v, %v", args, c.Sent, read.Owner, err)
		}
	})
}

// TestFixedIsNotShown checks arguments for a client that gets them back to complete them.
func TestFixedIsNotShown(t *testing.T) {
	e := newExecutor(registry.New(), &stub{})
	c := e.Check(t.Context(), fixed(tool(whole), `{"owner":"acme"}`), json.RawMessage(`"{\"n\":1}"`))
	if string(c.Arguments) != `{"n":1}` || string(c.Sent) != `{"n":1,"owner":"acme"}` || len(c.Faults) > 0 {
		t.Errorf("checked: %s, sent %s, %v", c.Arguments, c.Sent, c.Faults)
	}
}

// TestSchemasOfGoneTools has the catalog lose a tool: its schema is kept no longer.
func TestSchemasOfGoneTools(t *testing.T) {
	r := registry.New()
	e := newExecutor(r, &stub{})
	for _, server := range []string{"a", "b"} {
		_, err := r.Replace(server, registry.Offer{Tools: []registry.NormalizedTool{{ID: server + ":x", Server: server, Name: "x", InputSchema: json.RawMessage(object)}}})
		expect.OK(t, err)
		e.Check(t.Context(), r.Snapshot().Tools()[0], nil)
		r.Remove("a")
	}
	kept := 0
	e.schemas.compiled.Range(func(any, any) bool { kept++; return true })
	expect.Equal(t, kept, 1, "schemas are kept")
}

// TestOneSchemaForProfiles has several profiles make tools of one tool: its schema is compiled
// once.
func TestOneSchemaForProfiles(t *testing.T) {
	e := newExecutor(registry.New(), &stub{})
	original := tool(whole)
	compiled := e.schemas.of(original)
	for range 3 {
		if e.schemas.of(fixed(original, `{"owner":"acme"}`)) != compiled || e.schemas.of(original) != compiled {
			t.Error("the schema was compiled again")
		}
	}
	if e.schemas.of(tool(object)) == compiled {
		t.Error("another schema has the same compiled schema")
	}
}

// TestParamsOfRouter sends members that a server which ignores case would take for the tool or its
// arguments.
func TestParamsOfRouter(t *testing.T) {
	sent := ""
	s := &stub{call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
		sent = string(params)
		return json.RawMessage(fine), nil
	}}
	_, err := execute(t, s, Call{Tool: tool(object), Params: json.RawMessage(`{"Name":"delete_all","ARGUMENTS":{"a":1},"argument\u017f":2,"_Meta":{},"task":{}}`)})
	if want := `{"name":"original","arguments":{},"task":{}}`; err != nil || sent != want {
		t.Errorf("sent %s, %v; want %s", sent, err, want)
	}
}

// TestStandInsOfCatalog has a call whose catalog has only some of the servers that may stand in,
// and one of them with fixed arguments.
func TestStandInsOfCatalog(t *testing.T) {
	down := fmt.Errorf("it is starting: %w", session.ErrNotSent)
	r := registered(t, map[string]string{"a": whole, "b": whole, "c": whole}, func(*registry.NormalizedTool) {})
	for _, test := range []struct {
		name  string
		shows only
		args  string
		want  string // the server that answers, and the arguments that it gets
		fault string
	}{
		{"all", only{"a": "", "b": "", "c": ""}, `{"owner":"me"}`, `b {"owner":"me"}`, ""},
		{"not the first", only{"a": "", "c": ""}, `{"owner":"me"}`, `c {"owner":"me"}`, ""},
		{"none", only{"a": ""}, `{"owner":"me"}`, "", ""},
		{"a fixed argument", only{"a": `{"owner":"acme"}`, "c": `{"owner":"other"}`}, `{"n":1}`, `c {"n":1,"owner":"other"}`, ""},
		{"fixed for the stand-in only", only{"a": "", "b": `{"owner":"other"}`}, `{"owner":"me"}`, "", "b:find takes other arguments"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := ""
				answer := func(server string) func(context.Context, json.RawMessage) (json.RawMessage, error) {
					return func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
						got = server + " " + string(wire.Member(params, "arguments"))
						return json.RawMessage(fine), nil
					}
				}
				e := newExecutor(r, pool{
					"a": {policy: Policy{StandIns: []string{"b", "c"}}, absent: down}, "b": {call: answer("b")}, "c": {call: answer("c")},
				})
				catalog := r.Snapshot().Filtered(test.shows, nil)
				called, _ := catalog.Tool("a:find")
				result, err := e.Execute(t.Context(), Call{Tool: called, Arguments: json.RawMessage(test.args), Catalog: catalog})
				if err != nil || got != test.want || !strings.Contains(textOf(result), test.fault) {
					t.Errorf("answered by %s, want %s; %s, %v", got, test.want, result.JSON, err)
				}
				for _, server := range []string{"b", "c"} {
					if _, shown := test.shows[server]; !shown && strings.Contains(string(result.JSON), server+":find") {
						t.Errorf("the answer tells of %s: %s", server, result.JSON)
					}
				}
			})
		})
	}
}

// only is a [registry.Filter] that has the tools of some servers, with fixed arguments.
type only map[string]string

func (o only) Server(name string) bool     { _, ok := o[name]; return ok }
func (only) Item(registry.Item) bool       { return true }
func (only) Claim(server, uri string) bool { return true }
func (o only) Tool(t *registry.NormalizedTool) *registry.NormalizedTool {
	if o[t.Server] == "" {
		return t
	}
	return fixed(t, o[t.Server])
}

// An observing is an [Observer] that keeps the last execution.
type observing struct{ last Execution }

func (o *observing) Executed(e Execution) { o.last = e }

// TestObservedCaller has observers learn who called under which profile.
func TestObservedCaller(t *testing.T) {
	seen := new(observing)
	e := newExecutor(registry.New(), &stub{call: answers(fine, nil)})
	e.Observer = seen
	_, err := e.Execute(t.Context(), Call{Tool: tool(object), Principal: "hash", PrincipalName: "ci", Profile: "work"})
	expect.OK(t, err)
	if seen.last.Principal != "ci" || seen.last.Profile != "work" {
		t.Errorf("observed %q under %q", seen.last.Principal, seen.last.Profile)
	}
}

// TestFixedWithDefault calls a tool whose schema has a default for the argument that the profile fixes.
func TestFixedWithDefault(t *testing.T) {
	schema := `{"type":"object","properties":{"owner":{"default":"me"},"n":{"default":1}},"required":["owner","n"]}`
	c := newExecutor(registry.New(), &stub{}).Check(t.Context(), fixed(tool(schema), `{"owner":"acme"}`), nil)
	if string(c.Sent) != `{"n":1,"owner":"acme"}` || !c.passed() {
		t.Errorf("sent %s, %v", c.Sent, c.Faults)
	}
}

// Arguments that a server's parser may give up at are refused: such servers never answer.
func TestDeepArguments(t *testing.T) {
	s := &stub{policy: Policy{Validate: Off}, call: answers(fine, nil)}
	for levels, fits := range map[int]bool{99: true, 100: false} {
		deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		r, err := execute(t, s, Call{Tool: tool(object), Arguments: json.RawMessage(`{"x":` + deep + `}`)})
		if err != nil || r.IsError == fits {
			t.Errorf("%d levels: %.300s, %v", levels, r.JSON, err)
		}
	}
}
