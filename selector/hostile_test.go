package selector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The lists of a query have a bound for each caller.
func TestFindBoundsLists(t *testing.T) {
	s := picker(t, "a:list list the issues #tag", "b:list list the issues #tag")
	tooMany := strings.Split(strings.Repeat("tag,", 200_000)+"tag", ",") // more names than any list may have
	for _, q := range []Query{{Kinds: tooMany}, {Capabilities: tooMany}, {Servers: tooMany}} {
		q.Task = "list the issues"
		_, err := s.Find(t.Context(), q)
		if err == nil || err.Error() != "find: a list of 200001 names is too long; send at most 200" {
			t.Error(err)
		}
		if _, err = Route(t.Context(), &unrouted{s}, RouteRequest{Query: q}); (err == nil) != (q.Kinds != nil) { // Route ignores the kinds
			t.Errorf("route: %v", err)
		}
		q.Kinds, q.Capabilities, q.Servers = nil, q.Capabilities[:min(len(q.Capabilities), 200)], nil
		if found, err := s.Find(t.Context(), q); err != nil || len(found.Candidates) != 1 {
			t.Errorf("200 names: %+v, %v", found, err)
		}
	}
	found, err := s.Find(t.Context(), Query{Task: strings.Repeat("list the issues, then ", 1<<20), Limit: 1 << 40})
	if err != nil || len(found.Candidates) > 2 {
		t.Errorf("a task of 22 MB: %d candidates, %v", len(found.Candidates), err)
	}
}

// unrouted selects only.
type unrouted struct{ *Selector }

func (unrouted) Check(context.Context, *registry.NormalizedTool, json.RawMessage) (c Checked) {
	return c
}
func (unrouted) Execute(context.Context, Call) (r Result, err error) { return r, nil }

// An explanation of very many candidates ends with its context.
func TestExplainEnds(t *testing.T) {
	s := picker(t, "a:list list the issues")
	found, err := s.Find(t.Context(), Query{Task: "list the issues"})
	if err != nil || len(found.Candidates) != 1 {
		t.Fatal(found, err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	end(errors.New("the client has left"))
	if _, err := s.Explain(ctx, "list the issues", found.Candidates); err == nil {
		t.Error("an explanation for a client that has left")
	}
}

// Values of arguments are looked for in a few levels: each level is read again. Without the bound, the last ones take
// minutes.
func TestDeepArguments(t *testing.T) {
	nested := func(levels int, inner string) []byte {
		return []byte(strings.Repeat(`[{"a":`, levels/2) + inner + strings.Repeat("}]", levels/2))
	}
	for levels, want := range map[int]string{0: "[/a]", 2: "[/a]", maxDepth: "[/a]", maxDepth + 2: "[]", 9000: "[]"} {
		inner := `"/a"`
		if levels == 9000 {
			inner = "[" + strings.Repeat("1,", 4<<20) + `"/a"]`
		}
		expect.Equal(t, fmt.Sprint(texts(nested(levels, inner), nil, 0)), want, "%d levels", levels)
	}
	if got := texts([]byte("["+strings.Repeat(`"/a",`, 1<<20)+"1]"), nil, 0); len(got) != maxClues {
		t.Errorf("%d values", len(got))
	}
}
