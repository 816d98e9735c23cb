//go:build unix

package edit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// npm and uvx are scripts that answer as the real ones do.
const (
	npm = `#!/bin/sh
case "$*" in
"view a version dist-tags --json") echo '{"version": "2.0.1", "dist-tags": {"latest": "2.0.1"}}';;
"view @b/c@^1 version dist-tags --json") echo '[{"version": "1.10.0"}, {"version": "1.9.3"}, {"version": "1.11.0-rc.1"}]';;
"view odd version dist-tags --json") echo '{"version": "; rm -rf"}';;
"view mine version dist-tags --json") echo "{\"version\": \"$REGISTRY\"}";;
*) echo "npm error code E404" >&2; echo "npm error 404 Not Found: $2" >&2; exit 1;;
esac
`
	uvx = `#!/bin/sh
case "$*" in
"--from time python -I -c "*" time") echo 0.6.2;;
"--python 3.12 --from a[b]>=1 python -I -c "*" a") echo 1.4.post1;;
*) echo "error: no such package: $*" >&2; exit 2;;
esac
`
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"npm": npm, "uvx": uvx} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	nothing := "nothing"
	for line, want := range map[string]string{
		"npx -y a x":            "-y a@2.0.1 x",
		dir + "/npx -y @b/c@^1": "-y @b/c@1.10.0",
		"npx --package=a cmd":   "--package=a@2.0.1 cmd",
		"npm exec a":            "exec a@2.0.1",
		"npx -y runs@latest":    "-y runs@3.2.1", // as is known, without npm
		"npx -y a@2":            "npm: exit status 1; 404 Not Found: a@2",
		"npx -y odd":            "npm view says no version of odd",
		"npx -y mine":           "-y mine@7.0.0",
		"npx -y gone":           "npm: exit status 1; 404 Not Found: gone",
		"npx -p a -p gone x":    "it needs several packages; write their versions by hand",
		"npx -y a@1.2.3":        nothing,
		"npx -y ./a":            nothing,
		"node a":                nothing,

		"uvx time --tz UTC":                  "time@0.6.2 --tz UTC",
		"uvx --from time mcp-time":           "--from time==0.6.2 mcp-time",
		"uvx --from=time mcp-time":           "--from=time==0.6.2 mcp-time",
		"uvx --python 3.12 --from a[b]>=1 x": "--python 3.12 --from a[b]==1.4.post1 x",
		"uvx gone":                           "uvx: exit status 2; no such package: --from gone python -I -c import importlib.metadata as m, sys; print(m.version(sys.argv[1])) gone",
		"uvx time@1.2":                       nothing,
		"uvx --from time==1.2 x":             nothing,
		"uvx --from git+https://h/r x":       nothing,
		"uvx --from ./folder x":              nothing,
		"uvx a[b]":                           "write a[b] after --from, so that its version can be pinned",
	} {
		words := strings.Fields(line)
		entry := config.Server{Transport: config.Stdio, Command: words[0], Args: words[1:]}
		start := asking{entry.Command, entry.Args, t.TempDir(), append(os.Environ(), "REGISTRY=7.0.0")}
		p, err := findPin(t.Context(), entry, start, "runs@3.2.1")
		got := ""
		switch {
		case errors.Is(err, errPinned):
			got = nothing
		case err != nil:
			got = err.Error()
		default:
			args := append([]string{}, entry.Args...)
			args[p.Arg] = p.Text
			got = strings.Join(args, " ")
		}
		expect.Equal(t, got, want, "%s", line)
	}
}

func TestTaken(t *testing.T) {
	for printed, want := range map[string]string{
		`[{"version": "1.0.0", "dist-tags": {"latest": "1.0.0"}}, {"version": "1.2.0", "dist-tags": {"latest": "1.0.0"}}]`: "1.0.0",
		`[{"version": "1.9.9"}, {"version": "1.10.0"}, {"version": "1.2.0"}, {"version": "1.11.0-b"}]`:                     "1.10.0",
		`[{"version": "1.0.0-rc.9"}, {"version": "1.0.0-rc.10"}, {"version": "1.0.0-beta"}]`:                               "1.0.0-rc.10",
		`[{"version": "1.0.0-a"}, {"version": "1.0.0-a.1"}]`:                                                               "1.0.0-a.1",
		`{"version": "3.0.1", "dist-tags": {"latest": "4.0.0"}}`:                                                           "3.0.1",
		`{"version": "1.2"}`: "", `[]`: "", `"1.0.0"`: "", `x`: "",
	} {
		expect.Equal(t, taken([]byte(printed)), want, "%s", printed)
	}
}
