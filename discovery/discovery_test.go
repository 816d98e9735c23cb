package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A fake is a session whose server answers tools/list with answer, and other
// methods with what others holds; what that lacks it doesn't know.
type fake struct {
	session.Session
	capabilities string
	revision     string
	answer       func(params string) (string, error)
	others       map[string]string
	asked        []string
}

func (f *fake) Info() session.Info {
	return session.Info{ProtocolVersion: f.revision, Capabilities: json.RawMessage(f.capabilities)}
}

func (f *fake) Call(_ context.Context, r session.Request) (json.RawMessage, error) {
	if r.Method != "tools/list" {
		f.asked = append(f.asked, r.Method)
		if result, ok := f.others[r.Method+string(r.Params)]; ok {
			return json.RawMessage(result), nil
		}
		return nil, &session.Error{Code: session.CodeMethodNotFound, Message: "no " + r.Method}
	}
	f.asked = append(f.asked, string(r.Params))
	result, err := f.answer(string(r.Params))
	return json.RawMessage(result), err
}

// list runs List on a server that answers so.
func list(t *testing.T, r Rules, answer func(params string) (string, error)) (registry.Offer, []string, error) {
	t.Helper()
	s := &fake{capabilities: `{"tools":{}}`, answer: answer}
	l, err := List(t.Context(), "demo", s, r, zap.NewNop())
	return l, s.asked, err
}

// one answers with a single page of these tools.
func one(tools ...string) func(string) (string, error) {
	return func(string) (string, error) { return `{"tools":[` + strings.Join(tools, ",") + `]}`, nil }
}

func named(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func names(l registry.Offer) []string {
	var all []string
	for _, t := range l.Tools {
		all = append(all, t.Name)
	}
	return all
}

func TestListPages(t *testing.T) {
	// The empty string is a cursor in the modern era; a cursor goes back as it came.
	pages := map[string]string{
		`{}`:                    `{"tools":[` + named("a") + `],"nextCursor":""}`,
		`{"cursor":""}`:         `{"tools":[],"nextCursor":"\u0062\n"}`,
		`{"cursor":"\u0062\n"}`: `{"nextCursor":null,"tools":[` + named("b") + `,` + named("c") + `]}`,
	}
	for revision, want := range map[string]string{session.Modern: "a b c", session.LatestLegacy: "a", session.Oldest: "a"} {
		s := &fake{capabilities: `{"tools":{}}`, revision: revision, answer: func(params string) (string, error) {
			page, ok := pages[params]
			if !ok {
				t.Errorf("asked for %s", params)
			}
			return page, nil
		}}
		l, err := List(t.Context(), "demo", s, Rules{}, zap.NewNop())
		expect.OK(t, err)
		if got := strings.Join(names(l), " "); got != want || len(l.Dropped) > 0 {
			t.Errorf("%s: tools %s, want %s; left out: %v", revision, got, want, l.Dropped)
		}
		expect.Equal(t, len(s.asked), len(strings.Fields(want)), "%s: asked %q", revision, s.asked)
	}
}

// A list that does not end as it should keeps the pages that were read, and says so once.
func TestListCut(t *testing.T) {
	page := 0
	tests := map[string]struct {
		answer func(params string) (string, error)
		tools  string
		reason string
		asked  int
	}{
		"cursor ignored": {result(`{"tools":[` + named("a") + `,` + named("b") + `],"nextCursor":"x"}`), "a b", "the same page came twice", 2},
		"in another order": {func(string) (string, error) {
			page++
			all := []string{named("a"), named("b")}
			return fmt.Sprintf(`{"tools":[%s,%s],"nextCursor":"%d"}`, all[page%2], all[1-page%2], page), nil
		}, "b a", "the same page came twice", 2},
		"cursor that stays": {func(params string) (string, error) {
			if params == `{}` {
				return `{"tools":[` + named("a") + `],"nextCursor":"x"}`, nil
			}
			return `{"tools":[` + named("b") + `],"nextCursor":"x"}`, nil
		}, "a b", `cursor "x" came twice`, 2},
		"empty pages":         {func(string) (string, error) { page++; return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, page), nil }, "", "more than 1000 pages", maxPages},
		"cursor is a number":  {result(`{"tools":[` + named("a") + `],"nextCursor":1}`), "a", "nextCursor is not a string", 1},
		"cursor is an object": {result(`{"tools":[` + named("a") + `],"nextCursor":{}}`), "a", "nextCursor is not a string", 1},
		"cursor refused": {func(params string) (string, error) {
			if params == `{}` {
				return `{"tools":[` + named("a") + `],"nextCursor":"x"}`, nil
			}
			return "", &session.Error{Code: session.CodeInvalidParams, Message: "no such cursor"}
		}, "a", "refuses its own cursor", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			page = 0
			l, asked, err := list(t, Rules{}, test.answer)
			expect.OK(t, err)
			if got := strings.Join(names(l), " "); got != test.tools || len(asked) != test.asked {
				t.Errorf("tools %s in %d pages, want %s in %d", got, len(asked), test.tools, test.asked)
			}
			if len(l.Dropped) != 1 || !l.Dropped[0].Cut || !strings.Contains(l.Dropped[0].Reason, test.reason) {
				t.Errorf("reported %+v, want one with %q", l.Dropped, test.reason)
			}
		})
	}
}

func TestListEnds(t *testing.T) {
	page := 0
	tests := map[string]struct {
		answer func(string) (string, error)
		want   string
	}{
		"tools without end": {
			func(string) (string, error) {
				page++
				return fmt.Sprintf(`{"tools":[%s%d],"nextCursor":"%[2]d"}`, strings.Repeat("0,", 30_000), page), nil
			},
			"more than 100000 tools",
		},
		"no tools":       {result(`{"Tools":[]}`), "no array of tools"},
		"tools no array": {result(`{"tools":{}}`), "no array of tools"},
		"not an object":  {result(`[]`), "not an object"},
		"null":           {result(`null`), "not an object"},
		"not JSON":       {result(`{`), "not an object"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := list(t, Rules{}, test.answer)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "demo") {
				t.Errorf("got error %v, want one with %q and the server's name", err, test.want)
			}
		})
	}
	if l, _, err := list(t, Rules{}, result(`{"tools":null}`)); err != nil || len(l.Tools) != 0 {
		t.Errorf("null for no tools: %v, %v", l, err)
	}
}

// result answers with this result, whatever it is asked.
func result(json string) func(string) (string, error) {
	return func(string) (string, error) { return json, nil }
}

func TestListError(t *testing.T) {
	sent := &session.Error{Code: -32042, Message: "sign in first", Data: json.RawMessage(`{"url":"x"}`)}
	_, _, err := list(t, Rules{}, func(string) (string, error) { return "", sent })
	var got *session.Error
	if !errors.As(err, &got) || got != sent {
		t.Errorf("got %v, want the server's own error wrapped", err)
	}
}

func TestListDeadline(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	page := 0
	s := &fake{capabilities: `{"tools":{}}`, answer: func(string) (string, error) {
		if page++; page == 3 {
			cancel(gone)
		}
		return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, page), nil
	}}
	if _, err := List(ctx, "demo", s, Rules{}, zap.NewNop()); !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
	expect.Equal(t, page, 3, "asked … times")
}

func TestListWithoutCapability(t *testing.T) {
	for _, capabilities := range []string{``, `{}`, `{"tools":null}`, `{"logging":{},"prompts":null}`} {
		s := &fake{capabilities: capabilities}
		l, err := List(t.Context(), "demo", s, Rules{}, zap.NewNop())
		if err != nil || len(l.Tools)+len(l.Dropped) != 0 || s.asked != nil {
			t.Errorf("%s: %v, %v, asked %q", capabilities, l, err, s.asked)
		}
	}
}

func TestListOneBadToolHarmsNoOther(t *testing.T) {
	l, _, err := list(t, Rules{},
		one(named("a"), `{"name":7}`, `null`, named("b"), `{"name":"a","title":"again"}`, `{"name":"c"}`))
	expect.OK(t, err)
	expect.List(t, names(l), []string{"a", "b", "c"}, "tools")
	expect.Equal(t, l.Tools[0].Title, "", "kept the second of two tools with one name")
	want := []string{"#2: it has no name", "#3: it is not an object", "a: duplicate name"}
	if len(l.Dropped) != len(want) {
		t.Fatalf("dropped %v", l.Dropped)
	}
	for i, d := range l.Dropped {
		if got := d.Name + ": " + d.Reason; !strings.HasPrefix(got, want[i]) {
			t.Errorf("dropped %q, want %q", got, want[i])
		}
	}
}

func TestRules(t *testing.T) {
	tools := one(named("get_a"), named("get_b"), named("del_a"), named("x/y"))
	tests := map[string]struct {
		rules   Rules
		want    []string
		dropped int
	}{
		"none":             {Rules{}, []string{"get_a", "get_b", "del_a", "x/y"}, 0},
		"allow all":        {Rules{Allow: []string{"*"}}, []string{"get_a", "get_b", "del_a", "x/y"}, 0},
		"allow some":       {Rules{Allow: []string{"get_*"}}, []string{"get_a", "get_b"}, 2},
		"deny wins":        {Rules{Allow: []string{"*_a"}, Deny: []string{"del*"}}, []string{"get_a"}, 3},
		"rename":           {Rules{Rename: map[string]string{"get_a": "fetch"}}, []string{"fetch", "get_b", "del_a", "x/y"}, 0},
		"globs see theirs": {Rules{Deny: []string{"fetch"}, Rename: map[string]string{"get_a": "fetch"}}, []string{"fetch", "get_b", "del_a", "x/y"}, 0},
		"rename collides":  {Rules{Rename: map[string]string{"get_b": "get_a"}}, []string{"get_a", "del_a", "x/y"}, 1},
		"swap":             {Rules{Rename: map[string]string{"get_a": "get_b", "get_b": "get_a"}}, []string{"get_b", "get_a", "del_a", "x/y"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l, _, err := list(t, test.rules, tools)
			expect.OK(t, err)
			expect.List(t, names(l), test.want, "tools")
			expect.Equal(t, len(l.Dropped), test.dropped, "dropped %v", l.Dropped)
		})
	}
	// What keeps a tool out can be told: the pattern, or that none lets it in.
	told, _, _ := list(t, Rules{Allow: []string{"get_*", "x/y"}, Deny: []string{"x*", "#2"}}, one(named("get_a"), named(""), named("x/y"), named("del_a"), `{"name":"x_bad","inputSchema":`+strings.Repeat(`{"a":`, 2000)+"1"+strings.Repeat("}", 2000)+`}`))
	var filters []string
	for _, d := range told.Dropped {
		filters = append(filters, d.Name+" "+d.Filter+" "+d.Pattern)
	}
	expect.List(t, filters, []string{"#2 deny #2", "x/y deny x*", "del_a allow ", "x_bad deny x*"}, "dropped")
	if _, _, err := list(t, Rules{Deny: []string{"[a"}}, tools); err == nil {
		t.Error("a bad pattern is no error")
	}
}
