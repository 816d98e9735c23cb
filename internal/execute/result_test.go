package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestResult(t *testing.T) {
	r := Result{JSON: json.RawMessage(`{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"},{"type":"text","text":"b"}],"structuredContent":{"n":1},"_meta":{"server":"s"}}`)}
	if r.Text() != "a\nb" || string(r.Structured()) != `{"n":1}` || string(r.Meta()) != `{"server":"s"}` {
		t.Errorf("%q, %s, %s", r.Text(), r.Structured(), r.Meta())
	}
	for _, empty := range []string{"", "{}", `{"content":7}`} {
		if r := (Result{JSON: json.RawMessage(empty)}); r.Text() != "" || r.Structured() != nil || r.Meta() != nil {
			t.Errorf("%s: %q, %s, %s", empty, r.Text(), r.Structured(), r.Meta())
		}
	}
}

// A result says why no tool answered, and whether one may have been called; but nothing
// where a tool did answer, or where the arguments are wrong.
func TestResultErr(t *testing.T) {
	down := fmt.Errorf("it is down: %w", session.ErrNotSent)
	died := fmt.Errorf("it died: %w", session.ErrClosed)
	for name, tc := range map[string]struct {
		stub *stub
		args string
		err  error
	}{
		"it answers":          {&stub{call: answers(`{"isError":true}`, nil)}, "{}", nil},
		"the arguments wrong": {&stub{call: answers("", died)}, "[]", nil},
		"it is down":          {&stub{absent: down}, "{}", session.ErrNotSent},
		"it dies":             {&stub{call: answers("", died)}, "{}", session.ErrClosed},
	} {
		r, err := execute(t, tc.stub, Call{Tool: tool(object), Arguments: json.RawMessage(tc.args)})
		if err != nil || !r.IsError || (tc.err == nil) != (r.Err == nil) || !errors.Is(r.Err, tc.err) {
			t.Errorf("%s: %v, %v", name, r.Err, err)
		}
	}
	if !errors.Is(errNotAdmitted, session.ErrNotSent) || errors.Is(errNotAdmitted, session.ErrClosed) {
		t.Error("what is not admitted is not said to be unsent")
	}
}

// answers answers each call so.
func answers(raw string, err error) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(raw), err }
}

// An error keeps its structuredContent only if it fits the outputSchema, and its words in any case.
func TestErrorThatDoesNotFit(t *testing.T) {
	const words = `"content":[{"type":"text","text":"the account is locked"}]`
	for result, want := range map[string]string{
		`{"isError":true,` + words + `,"structuredContent":{"error":{"code":9}}}`:   ``,
		`{"isError":true,` + words + `,"structuredContent":{"items":7}}`:            ``,
		`{"isError":"true",` + words + `,"structuredContent":{}}`:                   ``,
		`{"isError":true,` + words + `,"structuredContent":{"items":[]}}`:           `{"items":[]}`,
		`{"isError":false,` + words + `,"structuredContent":{"error":{"code":9}}}`:  `{"error":{"code":9}}`,
		`{"isError":true,` + words + `}`:                                            ``,
		`{"isError":true,"structuredContent":{"error":"the account is locked"}}`:    ``,
		`{"isError":null,` + words + `,"structuredContent":{"items":[{"x":null}]}}`: `{"items":[{"x":null}]}`,
	} {
		described := tool(object)
		described.Definition = json.RawMessage(`{"outputSchema":{"type":"object","properties":{"items":{"type":"array"}},"required":["items"]}}`)
		r, err := execute(t, &stub{call: answers(result, nil)}, Call{Tool: described})
		if err != nil || string(r.Structured()) != want || !strings.Contains(r.Text(), "the account is locked") {
			t.Errorf("%s: %s, %v", result, r.JSON, err)
		}
		expect.Equal(t, r.IsError, string(wire.Member(r.JSON, "isError")) == "true", "%s: %s", result, r.JSON)
	}
}

// Arguments that fit are checked only if all of the schema was compared with them.
func TestPartlyChecked(t *testing.T) {
	for _, tc := range []struct {
		schema, args string
		checked      bool
	}{
		{`{"properties":{"a":{"pattern":"^[a-z]+$"}}}`, `{"a":"x"}`, true},
		{`{"properties":{"a":{"pattern":"^(?!-)[a-z-]+$"}}}`, `{"a":"-bad"}`, false},
		{`{"properties":{"a":{"not":{"pattern":"(?=a)"}}}}`, `{"a":"a"}`, false},
		{`{"properties":{"a":{"pattern":"a++"}}}`, `{}`, false},
		{`{"patternProperties":{"a++":{"type":"string"}}}`, `{"aa":1}`, false},
	} {
		r, err := execute(t, &stub{call: answers(`{"content":[]}`, nil)}, Call{Tool: tool(tc.schema), Arguments: json.RawMessage(tc.args)})
		if err != nil || len(r.Mismatch) > 0 {
			t.Errorf("%s: %v, %v", tc.schema, r.Mismatch, err)
		}
		expect.Equal(t, string(wire.Member(r.Meta(), "arguments_checked")), fmt.Sprint(tc.checked), "%s, %s: arguments_checked", tc.schema, tc.args)
		r, err = execute(t, &stub{policy: Policy{MustCheck: true}, call: answers(`{"content":[]}`, nil)}, Call{Tool: tool(tc.schema), Arguments: json.RawMessage(tc.args)})
		expect.Equal(t, err == nil && len(r.Mismatch) == 0, tc.checked, "a function gets %s, %s", tc.schema, tc.args)
	}
}
