package adapter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Stand-ins of a server: servers of its group by priority, and those that are the
// same server twice.
func TestPolicies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"mcpServers": {
		"a": {"command": "x", "group": "g", "maxConcurrent": 3, "retry": "always", "tools": {"timeout": {"x": "1h"}, "maxResultTokens": {"y": 5}}},
		"b": {"command": "y", "group": "g", "priority": 1},
		"c": {"command": "z", "group": "g", "priority": 2, "retry": "never"},
		"d": {"command": "x"},
		"e": {"command": "x", "env": {"TOKEN": "1"}},
		"f": {"command": "w"},
		"shared": {"url": "https://a.example/mcp"},
		"read": {"url": "https://a.example/mcp", "credentials": "user", "exchange": {"scope": "read"}},
		"write": {"url": "https://a.example/mcp", "credentials": "user", "exchange": {"scope": "write"}},
		"logins": {"url": "https://a.example/mcp", "credentials": "user"}
	}}`), 0o600))
	c, err := config.Load(file)
	expect.OK(t, err)
	all := policies(c.Servers)
	for name, want := range map[string]string{"a": "c b / d", "b": "c a /", "c": "b a /", "d": "/ a", "e": "/", "f": "/", "shared": "/", "read": "/", "write": "/", "logins": "/"} {
		p := all[name]
		expect.Equal(t, strings.TrimSpace(strings.Join(p.StandIns, " ")+" / "+strings.Join(p.Twins, " ")), want, "%s", name)
	}
	if all["a"].Timeouts["x"] != time.Hour || all["a"].ResultTokens["y"] != 5 {
		t.Errorf("%+v", all["a"])
	}
	if all["a"].MaxConcurrent != 3 || all["a"].Retry == all["b"].Retry || all["b"].Retry == all["c"].Retry {
		t.Errorf("%+v, %+v, %+v", all["a"], all["b"], all["c"])
	}
}
