package doctor

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

func TestContainer(t *testing.T) {
	for command, want := range map[string][]string{ // parts of the problems
		"docker run -i --rm img":                    nil,
		"podman run --rm img":                       {"has no stdin"},
		"nerdctl run -i img":                        {"stopped container"},
		"docker run img":                            {"has no stdin", "stopped container"},
		"docker run -d --rm img":                    {"in the background"},
		"docker run -i --rm --name gh img":          {`fixed name "gh"`},
		"docker run -i --rm --cidfile /x img":       {"starts once only"},
		"docker run -i --rm --odd x img":            {`option "--odd"`},
		"docker exec -i name cmd":                   nil,
		"sudo docker run img":                       nil,
		"/usr/bin/docker container run -t --rm img": {"has no stdin"},
	} {
		c := config.Config{Servers: []config.Server{stdio(command)}}
		r := Examine(caseOf(c, status.Status{Name: "s", State: status.Ready}))
		found := r.Findings[:len(r.Findings)-1] // the last one is that it offers nothing
		if len(found) != len(want) {
			t.Errorf("%s: found %+v, want %q", command, found, want)
			continue
		}
		for i, part := range want {
			if !strings.Contains(found[i].Problem, part) || found[i].Severity != Warning || found[i].Fix == "" {
				t.Errorf("%s: found %+v, want %q", command, found[i], part)
			}
		}
	}
}
