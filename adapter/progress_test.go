package adapter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/status"
)

func TestSummary(t *testing.T) {
	server := func(name string, state status.State, doing string) status.Status {
		return status.Status{Name: name, State: state, Doing: doing}
	}
	all := []status.Status{
		server("a", status.Ready, ""), server("b", status.Starting, ""), server("c", status.Starting, "npx is fetching pkg"),
		server("d", status.Failed, ""), server("e", status.Idle, ""), server("f", status.Disabled, ""),
	}
	line, settled := summary(all)
	if want := "1 of 4 servers ready, 1 failed: d, 2 starting: b, c (npx is fetching pkg)"; line != want || settled {
		t.Errorf("%q, %v, want %q", line, settled, want)
	}
	line, settled = summary(append(all[:1], all[3:]...))
	if want := "1 of 2 servers ready, 1 failed: d"; line != want || !settled {
		t.Errorf("%q, %v, want %q", line, settled, want)
	}
	var many []status.Status
	for i := range 30 {
		many = append(many, server(fmt.Sprint("s", i), status.Starting, ""))
	}
	if line, _ = summary(many); !strings.HasSuffix(line, ", s4 and 25 more") {
		t.Errorf("%q", line)
	}
}
