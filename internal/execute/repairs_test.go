package execute

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Repairs are counted by what was done, not by where and to what.
func TestRepairs(t *testing.T) {
	result := `{"content":[7,{"type":"text","text":"x"},"; made up: \\"]}`
	s := &stub{call: answers(result, nil)}
	e := newExecutor(registry.New(), s)
	for range 2 {
		for _, args := range []string{`{"list":"[1]"}`, `"{}"`} {
			c := Call{Tool: tool(`{"type":"object","properties":{"list":{"type":"array"},"opt":{"type":"string"}}}`), Arguments: json.RawMessage(args)}
			r, err := e.Execute(t.Context(), c)
			if err != nil || r.IsError {
				t.Fatal(r, err)
			}
			if note, _ := wire.String(wire.Member(r.Meta(), "repaired")); r.Text() != "7\nx\n; made up: \\" || !strings.Contains(note, "made text") {
				t.Errorf("the client gets %q, and the note %q", r.Text(), note)
			}
		}
	}
	s.call = answers(`{"contents":[{"uri":"a:b","mimeType":"image/png","blob":""}]}`, nil)
	_, err := e.Relay(t.Context(), "srv", session.Request{Method: "resources/read"})
	expect.OK(t, err)
	want := []status.Repair{
		{Of: "arguments", What: "strings of JSON became values", Times: 2},
		{Of: "results", What: "content: made text", Times: 4},
		{Of: "arguments", What: "the arguments were a string of JSON", Times: 2},
		{Of: "results", What: "contents: replaced by a note, since its data is empty", Times: 1},
	}
	expect.List(t, e.Repairs("srv"), want)
	for i := range 100 {
		e.repairs.count("many", "results", fmt.Sprintf("repair %d", i))
		e.repairs.count("many", "results", "repair 0")
	}
	got := e.Repairs("many")
	if n := len(got); n != maxRepairs+1 || got[0].Times != 101 || got[n-1].What != "other repairs" || got[n-1].Times != 100-maxRepairs {
		t.Errorf("%+v", got)
	}
}
