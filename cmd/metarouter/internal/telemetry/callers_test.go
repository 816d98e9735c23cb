package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/selector"
)

// TestCallers counts calls and tokens by client, principal and profile.
func TestCallers(t *testing.T) {
	m := NewMetrics("")
	h := m.Handler(newFakeRouter(), zap.NewNop())
	for range 2 {
		m.Executed(selector.Execution{Tool: tool("s", "t"), Client: "a\n\"\xff", Principal: "ci", Profile: "work", Result: make([]byte, 43)})
	}
	m.Executed(selector.Execution{Tool: tool("s", "t")})
	m.Listed("a\n\"\xff", "ci", "work", 7)
	text, _ := scrape(t, h, "")
	families := parse(t, text)
	for _, tt := range []struct {
		name, client, principal, profile string
		want                             float64
	}{
		{"metarouter_client_calls_total", "a\n\"\ufffd", "ci", "work", 2},
		{"metarouter_client_result_tokens_total", "a\n\"\ufffd", "ci", "work", 20},
		{"metarouter_client_definition_tokens_total", "a\n\"\ufffd", "ci", "work", 7},
		{"metarouter_client_calls_total", "", "", "", 1},
	} {
		if got := sample(families, tt.name, "client", tt.client, "principal", tt.principal, "profile", tt.profile); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestCallersAreBounded has clients name themselves as they like, under many principals and
// profiles: the number of series and their size stay bounded, and no call is lost.
func TestCallersAreBounded(t *testing.T) {
	m := NewMetrics("")
	h := m.Handler(newFakeRouter(), zap.NewNop())
	calls := 0
	call := func(client string, i int) {
		calls++
		m.Executed(selector.Execution{
			Tool: tool("s", "t"), Client: client, Principal: fmt.Sprint("principal", i%40), Profile: fmt.Sprint("profile", i%37), Outcome: selector.OK,
		})
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
}
