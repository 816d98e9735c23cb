//go:build linux

package e2e

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A scripting is a router in mode "code" that asks before each call of a tool of ledgers that writes.
type scripting struct {
	*setup
	servers entries
	ledger  string
}

func newScripting(t *testing.T, own map[string]any) *scripting {
	t.Helper()
	ledger := filepath.Join(t.TempDir(), "ledger")
	s := &scripting{ledger: ledger, servers: entries{
		"s":   fake("-tools", "echo,ask,progress,ledger_read,ledger_put,ledger_charge", "-ledger", ledger),
		"new": fake("-tools", "ask", "-era", "modern"),
	}}
	s.setup = prepare(t, s.servers, scriptSettings(own))
	return s
}

// scriptSettings returns the router's keys, with own ones.
func scriptSettings(own map[string]any) map[string]any {
	all := map[string]any{"mode": "code", "profiles": map[string]any{"default": asksForWrites()}}
	maps.Copy(all, own)
	return all
}

func asksForWrites() map[string]any {
	return map[string]any{"tools": map[string]any{"ask": []string{"ledger_put", "ledger_charge"}}}
}

// executions returns how often each call of a tool of ledgers began, by the argument id.
func (s *scripting) executions() map[string]int { return fakeserver.Executions(s.ledger) }

// executed fails the test unless the calls with these ids, and no others, began, each once.
func (s *scripting) executed(ids ...string) {
	s.t.Helper()
	want := make(map[string]int)
	for _, id := range ids {
		want[id] = 1
	}
	if got := s.executions(); !maps.Equal(got, want) {
		s.t.Errorf("executions %v, want %v", got, want)
	}
}

// A scriptAnswer is an answer to run_script: its result, or the questions to the client's person.
type scriptAnswer struct {
	result
	ResultType    string
	RequestState  string
	InputRequests map[string]struct {
		Method string
		Params struct{ Message string }
	}
}

// gives fails the test unless the script has ended well with a text.
func (a scriptAnswer) gives(t *testing.T, want string) {
	t.Helper()
	if a.IsError || a.ResultType == "input_required" || a.text() != want {
		t.Errorf("got %s, want %s", a.raw, want)
	}
}

// fails fails the test unless the script has ended with an error that has the texts.
func (a scriptAnswer) fails(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !a.IsError || !strings.Contains(a.text(), text) {
			t.Errorf("%s lacks %q", a.raw, text)
		}
	}
}

// overHTTP returns a modern client with a header.
func (s *scripting) overHTTP(url string, header ...string) *mcptest.HTTPClient {
	s.t.Helper()
	c := mcptest.NewHTTPClient(s.t, url)
	for i := 0; i+1 < len(header); i += 2 {
		c.Header.Set(header[i], header[i+1])
	}
	c.Declare(personal)
	_, err := c.Discover(within(s.t))
	expect.OK(s.t, err)
	return c
}
