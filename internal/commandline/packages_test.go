package commandline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The test of launch has more cases of specs.
func TestPackagesOf(t *testing.T) {
	for command, want := range map[string]string{
		"npx -y pkg":                          "npx [{pkg 1 false}]",
		"npx pkg@1.2.3 --flag -p x":           "npx [{pkg@1.2.3 0 false}]",
		"/usr/bin/npx -y -- @a/b@latest":      "npx [{@a/b@latest 2 false}]",
		"npx -y -p a -p @b/c cmd x":           "npx [{a 2 true} {@b/c 4 true}]",
		"npx --package=a@1.x cmd":             "npx [{a@1.x 0 true}]",
		"npm.cmd exec --yes a -- --b":         "npm [{a 2 false}]",
		"uvx mcp-server-time --tz UTC":        "uvx [{mcp-server-time 0 false}]",
		"uvx --python 3.12 --from a[b]==1 c":  "uvx [{a[b]==1 3 true}]",
		"uvx --from=a c":                      "uvx [{a 0 true}]",
		"uv tool run --with x -q c d":         "uv [{c 5 false}]",
		"npx -y ./folder":                     "",
		"npx -c a":                            "",
		"npx -p a":                            "",
		"npm run x":                           "",
		"uv run x":                            "",
		"docker run -i --rm image npx -y pkg": "",
		"npx":                                 "",
		"uvx --from":                          "",
	} {
		words := strings.Fields(command)
		got := ""
		if u, ok := PackagesOf(words[0], words[1:]); ok {
			got = fmt.Sprint(u.By, " ", u.Specs)
		}
		expect.Equal(t, got, want, "%s", command)
	}
}
