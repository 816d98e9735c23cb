package adapter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/supervisor"
)

func TestSummary(t *testing.T) {
	server := func(name string, state supervisor.State, doing string) supervisor.Status {
		return supervisor.Status{Name: name, State: state, Doing: doing}
	}
	all := []supervisor.Status{
		server("a", supervisor.Ready, ""), server("b", supervisor.Starting, ""), server("c", supervisor.Starting, "npx is fetching pkg"),
		server("d", supervisor.Failed, ""), server("e", supervisor.Idle, ""), server("f", supervisor.Disabled, ""),
	}
	line, settled := summary(all)
	if want := "1 of 4 servers ready, 1 failed: d, 2 starting: b, c (npx is fetching pkg)"; line != want || settled {
		t.Errorf("%q, %v, want %q", line, settled, want)
	}
	line, settled = summary(append(all[:1], all[3:]...))
	if want := "1 of 2 servers ready, 1 failed: d"; line != want || !settled {
		t.Errorf("%q, %v, want %q", line, settled, want)
	}
	var many []supervisor.Status
	for i := range 30 {
		many = append(many, server(fmt.Sprint("s", i), supervisor.Starting, ""))
	}
	if line, _ = summary(many); !strings.HasSuffix(line, ", s4 and 25 more") {
		t.Errorf("%q", line)
	}
}
