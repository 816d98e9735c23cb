package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
)

// sideWith is a side of servers with tools of 400 tokens each.
func sideWith(r config.Router, unknown []string, servers []config.Server, tools map[string][]string) Side {
	p := adapter.Preview{Offers: make(map[string]registry.Offer), Unknown: unknown}
	for s, names := range tools {
		var o registry.Offer
		for _, name := range names {
			ours, original, _ := strings.Cut(name, "<")
			o.Tools = append(o.Tools, registry.NormalizedTool{ID: registry.ID(s, ours), Server: s, Name: ours, Original: original, Definition: make(json.RawMessage, 1600)})
		}
		p.Offers[s] = o
	}
	return SideOf(config.Config{Servers: servers, Router: r}, p)
}

func TestCompare(t *testing.T) {
	auto := config.Router{Mode: "auto", ToolBudget: 1000}
	entry := func(name, command string) config.Server {
		return config.Server{Name: name, Transport: config.Stdio, Command: command, Env: map[string]string{"KEY": command + " is secret"}}
	}
	bare := auto
	bare.Names, bare.HTTP.Tokens = "bare", []config.Token{{Hash: "a hash"}}
	inCluster := auto
	if err := inCluster.JoinCluster("nats://u:secret@127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	home, work := auto, auto
	home.Profiles = map[string]config.Profile{"home": {}, "same": {ReadOnly: true}, "both": {}}
	work.Profiles = map[string]config.Profile{"work": {}, "same": {ReadOnly: true}, "both": {ReadOnly: true}}
	tests := map[string]struct {
		a, b Side
		want string // JSON
		mode string
	}{
		"nothing": {
			sideWith(auto, nil, []config.Server{entry("s", "x")}, map[string][]string{"s": {"a"}}),
			sideWith(auto, nil, []config.Server{entry("s", "x")}, map[string][]string{"s": {"a"}}),
			`{"servers":{"added":[],"removed":[],"changed":[]},"tools":{"added":[],"removed":[],"renamed":[]},"tokens":{"before":400,"after":400},"details":{},"settings":[],"unknown":[],"named":[]}`,
			"; clients are shown all tools, as before",
		},
		"one more": {
			sideWith(auto, nil, []config.Server{entry("s", "x")}, map[string][]string{"s": {"a", "b"}}),
			sideWith(auto, nil, []config.Server{entry("s", "x"), entry("t", "y")}, map[string][]string{"s": {"a", "b"}, "t": {"c"}}),
			`{"servers":{"added":["t"],"removed":[],"changed":[]},"tools":{"added":["t:c"],"removed":[],"renamed":[]},"tokens":{"before":800,"after":1200},"details":{"t":["y"]},"settings":[],"unknown":[],"named":[]}`,
			"; clients would be shown the search tools instead of all tools from the router's next start",
		},
		"another program": {
			sideWith(auto, nil, []config.Server{entry("s", "x"), entry("gone", "z")}, map[string][]string{"s": {"a"}, "gone": {"g"}}),
			sideWith(auto, []string{"s"}, []config.Server{entry("s", "y")}, nil),
			`{"servers":{"added":[],"removed":["gone"],"changed":["s"]},"tools":{"added":[],"removed":["gone:g"],"renamed":[]},"tokens":{"before":800,"after":0},"details":{"s":["command","env ~KEY","the server is started again"]},"settings":[],"unknown":["s"],"named":[]}`,
			"; clients are shown all tools, as before, unless the tools that are not known yet cost more than 1000 tokens",
		},
		"other names": {
			sideWith(auto, nil, []config.Server{entry("s", "x")}, map[string][]string{"s": {"a", "b"}}),
			sideWith(bare, nil, []config.Server{entry("s", "x")}, map[string][]string{"s": {"c<a", "b"}}),
			`{"servers":{"added":[],"removed":[],"changed":[]},"tools":{"added":[],"removed":[],"renamed":[{"id":"s:b","from":"s__b","to":"b"},{"id":"s:c","from":"s__a","to":"c"}]},"tokens":{"before":800,"after":800},"details":{},"settings":["names  → bare","http"],"unknown":[],"named":[]}`,
			"; clients are shown all tools, as before",
		},
		"another cluster": {
			sideWith(auto, nil, nil, nil), sideWith(inCluster, nil, nil, nil),
			`{"servers":{"added":[],"removed":[],"changed":[]},"tools":{"added":[],"removed":[],"renamed":[]},"tokens":{"before":0,"after":0},"details":{},"settings":["cluster"],"unknown":[],"named":[]}`,
			"; clients are shown all tools, as before",
		},
		"other profiles": {
			sideWith(home, nil, nil, nil), sideWith(work, nil, nil, nil),
			`{"servers":{"added":[],"removed":[],"changed":[]},"tools":{"added":[],"removed":[],"renamed":[]},"tokens":{"before":0,"after":0},"details":{},"settings":["profile both","profile home removed","profile work added"],"unknown":[],"named":[]}`,
			"; clients are shown all tools, as before",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := Compare(tc.a, tc.b)
			got, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if plain := strings.ReplaceAll(string(got), `\u003c`, "<"); plain != tc.want {
				t.Errorf("got\n%s\nwant\n%s", plain, tc.want)
			}
			if p.Mode != tc.mode {
				t.Errorf("mode %q", p.Mode)
			}
			if strings.Contains(string(got), "secret") {
				t.Error("it tells a secret")
			}
		})
	}
}
