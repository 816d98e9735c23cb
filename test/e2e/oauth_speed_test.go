//go:build linux

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// TestOAuthSpeed logs what calls take with a fixed token and with a JWT that the router has verified,
// by turns. It checks nothing.
func TestOAuthSpeed(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	if _, long := longTime(t); !long {
		t.Skip("only with " + longVariable)
	}
	external.Node22(t)
	m := newTeam(t, teamOptions{})
	ways := []string{"a fixed token", "a JWT"}
	var clients []*session
	for _, token := range []string{usersToken, m.token("ann")} {
		c, err := m.client(m.url, token, "modern")
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	took := make([][]time.Duration, len(clients))
	for n := range 6000 {
		c := n % len(clients)
		began := time.Now()
		if _, err := clients[c].call(t.Context(), "quill__echo", map[string]any{"message": "hello"}); err != nil {
			t.Fatal(err)
		}
		if n >= 1000 { // after a warm-up
			took[c] = append(took[c], time.Since(began))
		}
	}
	for i, all := range took {
		slices.Sort(all)
		t.Logf("with %s: p50 %s, p90 %s, p99 %s", ways[i], all[len(all)/2], all[len(all)*9/10], all[len(all)*99/100])
	}
}
