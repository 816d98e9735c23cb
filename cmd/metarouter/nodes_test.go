package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The table has all nodes; no command line has a word that an untrusted node says of itself.
func TestPrintNodes(t *testing.T) {
	const (
		own  = "UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"
		gpu  = "UBWYQBM6PNVQ4XOVEFFAIIJVCVQD2B4PASQRUIFD72QMTWIUR65CGOZW"
		evil = "UCG2XZCWJJFSRGXO6T37HU2FI7NISMP34PISZTHQ6QYIVT5TNBV3FYHB"
	)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	nodes := []clusternode.Info{
		{Node: "laptop", Key: own, Self: true, Trusted: true, Alive: true, Version: "1.2.0", Servers: []string{}},
		{Node: "gpu-box", Key: gpu, Trusted: true, Version: "1.1.0", Servers: []string{"whisper", "sdxl"}, Tools: 12, Latency: 0.44, LastSeen: now.Add(-7 * time.Second), Problem: "its clock is 12 s ahead; set it"},
		{Node: "x\n; rm -rf ~\x1b[2J" + strings.Repeat("y", 100), Key: evil, Alive: true, Servers: []string{}},
		{Node: "z", Key: "; reboot", Alive: true},
	}
	var out, notes bytes.Buffer
	files := &configfile.Source{Console: console.New(nil, &out, &notes), Paths: []string{"a b.json"}}
	expect.OK(t, printNodes(files, nodes, now))
	want := []string{
		"NODE TRUSTED VERSION SERVERS TOOLS LATENCY SEEN KEY",
		"laptop (this one) yes 1.2.0 0 now UA6NDBPC…3H4DRX3X",
		"gpu-box yes 1.1.0 whisper, sdxl 12 0.4 ms 7s ago UBWYQBM6…R65CGOZW",
		"→ its clock is 12 s ahead; set it",
		"x ; rm -rf ~yyyyyyyyyyyyyyyyyyyyyyyyyyy… no 0 now UCG2XZCW…NBV3FYHB",
		"z no 0 now ; reboot",
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	expect.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	if s := notes.String(); strings.Count(s, "\n") != 2 || !strings.Contains(s, ": metarouter nodes trust "+evil+" --write --config 'a b.json'\n") || strings.ContainsAny(s, "\x1b") || strings.Contains(s, "reboot") {
		t.Errorf("the notes are\n%s", s)
	}
}
