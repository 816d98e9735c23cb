package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/selector"
)

// TestCallers counts calls and tokens by server, client, principal and profile.
func TestCallers(t *testing.T) {
	m := NewMetrics("")
	h := m.Handler(newFakeRouter("s"), zap.NewNop())
	for range 2 {
		m.Executed(selector.Execution{Tool: tool("s", "t"), Client: "a\n\"\xff", Principal: "ci", Profile: "work", Result: make([]byte, 43)})
	}
	m.Executed(selector.Execution{Tool: tool("s", "t")})
	m.Listed("a\n\"\xff", "ci", "work", 7)
	text, _ := scrape(t, h, "")
	families := parse(t, text)
	const name = "a\n\"\ufffd"
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"metarouter_client_calls_total", []string{"server", "s", "client", name, "principal", "ci", "profile", "work"}, 2},
		{"metarouter_client_result_tokens_total", []string{"server", "s", "client", name, "principal", "ci", "profile", "work"}, 20},
		{"metarouter_client_definition_tokens_total", []string{"client", name, "principal", "ci", "profile", "work"}, 7},
		{"metarouter_client_calls_total", []string{"server", "s", "client", "", "principal", "", "profile", ""}, 1},
		{"metarouter_client_calls_total", []string{"server", "metarouter", "client", name, "principal", "ci", "profile", "work"}, 0},
	} {
		if got := sample(families, tt.name, tt.labels...); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// The costs of a client are added up for all principals.
func TestCosts(t *testing.T) {
	m := NewMetrics("")
	r := newFakeRouter("a", "b")
	if got := m.Costs(r); got == nil || len(got) != 0 {
		t.Errorf("at first: %v", got)
	}
	for _, principal := range []string{"ci", "ops"} {
		m.Executed(selector.Execution{Tool: tool("a", "t"), Client: "c", Principal: principal, Profile: "work", Result: make([]byte, 43)})
	}
	m.Executed(selector.Execution{Tool: tool("a", "t"), Answered: tool("b", "t"), Client: "c", Profile: "work", Result: make([]byte, 8)})
	m.Executed(selector.Execution{Tool: tool("", "find_tools"), Client: "c", Result: make([]byte, 4)})
	m.Listed("c", "ci", "work", 7)
	m.Listed("c", "ci", "work", 5)
	want := []Cost{
		{"", "c", "", 1, 1, 0}, {"", "c", "work", 0, 0, 12}, {"a", "c", "work", 2, 20, 0}, {"b", "c", "work", 1, 2, 0},
	}
	if got := m.Costs(r); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := m.Costs(newFakeRouter("a")); !slices.Equal(got, want[:3]) {
		t.Errorf("without b: got %+v", got)
	}
}

// TestCallersAreBounded has clients name themselves as they like, under many principals and
// profiles: the number of series and their size stay bounded, and no call is lost.
func TestCallersAreBounded(t *testing.T) {
	m := NewMetrics("")
	h := m.Handler(newFakeRouter("s"), zap.NewNop())
	calls, lists := 0, 0
	call := func(client string, i int) {
		calls++
		m.Executed(selector.Execution{
			Tool: tool("s", "t"), Client: client, Principal: fmt.Sprint("principal", i%40), Profile: fmt.Sprint("profile", i%37), Outcome: execute.OK,
		})
		lists++
		m.Listed(client, fmt.Sprint("principal", i%40), fmt.Sprint("profile", i%37), 1)
	}
	for i := range 5000 {
		call(fmt.Sprint("client", i), i)
		call(fmt.Sprintf("\xff\x00\u202e%d", i), i)
		call(strings.Repeat("long", 10_000)+fmt.Sprint(i), i)
	}
	text, _ := scrape(t, h, "")
	families := parse(t, text)
	names, sum := make(map[string]bool), 0.0
	for _, series := range families["metarouter_client_calls_total"].GetMetric() {
		sum += series.GetCounter().GetValue()
		for _, l := range series.GetLabel() {
			if l.GetName() == "client" {
				names[l.GetValue()] = true
			}
			if len(l.GetValue()) > maxValue*3 { // an invalid byte becomes three
				t.Errorf("a label has %d bytes", len(l.GetValue()))
			}
		}
	}
	if n := len(families["metarouter_client_calls_total"].GetMetric()); n > maxCallers+1 || len(names) > maxClients+1 || !names[other] {
		t.Errorf("%d series of %d clients", n, len(names))
	}
	if sum != float64(calls) {
		t.Errorf("%v calls are counted of %d", sum, calls)
	}
	cost := Cost{}
	for _, c := range m.Costs(newFakeRouter("s")) {
		cost.Calls += c.Calls
		cost.Definitions += c.Definitions
	}
	if cost.Calls != int64(calls) || cost.Definitions != int64(lists) {
		t.Errorf("the costs have %d calls of %d and %d lists of %d", cost.Calls, calls, cost.Definitions, lists)
	}
}
