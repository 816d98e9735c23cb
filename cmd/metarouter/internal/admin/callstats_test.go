package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// ended is a call that ended at a second and took so long.
func ended(at int64, took time.Duration, o execute.Outcome) selector.Execution {
	t := &registry.NormalizedTool{ID: "s:t", Server: "s", Name: "t"}
	return selector.Execution{Tool: t, Answered: t, Began: time.Unix(at, 0).Add(-took), Took: took, Outcome: o}
}

func TestBoard(t *testing.T) {
	const now = 1_000_000
	b := callStats{mask: new(telemetry.Mask)}
	for i := range 450 {
		b.Executed(ended(now-449+int64(i), time.Duration(i)*time.Millisecond, execute.OK))
	}
	b.Executed(ended(now, time.Hour, execute.NoAnswer))
	calls, skipped := b.since(0)
	if len(calls) != keptCalls || skipped != 251 || calls[0].Seq != 252 || calls[keptCalls-1].Seq != 451 || calls[keptCalls-1].Outcome != execute.NoAnswer {
		t.Errorf("%d calls from %d on, %d skipped", len(calls), calls[0].Seq, skipped)
	}
	if calls, skipped := b.since(450); len(calls) != 1 || skipped != 0 {
		t.Errorf("%d calls, %d skipped", len(calls), skipped)
	}
	if calls, skipped := b.since(451); len(calls) != 0 || skipped != 0 {
		t.Errorf("%d calls, %d skipped", len(calls), skipped)
	}
}

// The failure that a tool reports is shown as one plain line.
func TestFault(t *testing.T) {
	b := callStats{mask: new(telemetry.Mask)}
	for _, test := range []struct {
		outcome            execute.Outcome
		fault, text, wants string
	}{
		{execute.ToolError, "", "no such file\nstack …", "no such file"},
		{execute.ToolError, "", "### Error\n\nError: no page\n### Hint", "Error: no page"},
		{execute.ToolError, "", "# only this", "# only this"},
		{execute.ToolError, "", "#3 is missing\nstack …", "#3 is missing"},
		{execute.ToolError, "", "401: api_key=hush4711 is wrong", "401: api_key=*** is wrong"},
		{execute.ToolError, "", "\u001b[31mred\u001b[0m", "red"},
		{execute.ToolError, "", strings.Repeat("é", 1000), strings.Repeat("é", 248) + "…"},
		{execute.OK, "", "all is well", ""},
		{execute.Outcome("server_error"), "Bearer abcdefghijkl", "", "***"},
	} {
		text, _ := json.Marshal(test.text)
		e := ended(1000, time.Millisecond, test.outcome)
		e.Fault, e.Result, e.Client = test.fault, []byte(`{"content":[{"type":"text","text":`+string(text)+`}],"isError":true}`), strings.Repeat("x", 1<<20)
		e.Script = "run"
		b.Executed(e)
		calls, _ := b.since(b.last - 1)
		if calls[0].Fault != test.wants || len(calls[0].Client) > 600 || calls[0].Script != "run" {
			t.Errorf("%q by %.20q of the script %q, want %q", calls[0].Fault, calls[0].Client, calls[0].Script, test.wants)
		}
	}
}
