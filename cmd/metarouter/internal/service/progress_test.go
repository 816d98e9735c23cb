package service

import (
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The line sums the servers up, and names those that are starting.
func TestLine(t *testing.T) {
	began := time.Unix(1000, 0)
	now := began.Add(75 * time.Second)
	all := []status.Server{
		{Status: status.Status{Name: "files", State: status.Ready}, Tools: 3},
		{Status: status.Status{Name: "日本", State: status.Starting, Since: began.Add(5 * time.Second), Doing: "npx is fetching a-package"}},
		{Status: status.Status{Name: "next", State: status.Starting, Since: now}},
		{Status: status.Status{Name: "down", State: status.Failed}},
		{Status: status.Status{Name: "off", State: status.Disabled}},
	}
	want := "1 of 4 servers ready, 3 tools, 2 starting, 1 not working, 75 s: 日本 70 s (npx is fetching a-package), next 0 s"
	expect.Equal(t, lineOf(all, began, now), want, "line")
	expect.Equal(t, lineOf(nil, began, now), "0 of 0 servers ready, 0 tools, 75 s", "line of no server")
}
