package main

import (
	"io"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
)

// The command line of 'claude mcp add' is understood, whatever the order.
func TestEntryOfArguments(t *testing.T) {
	for line, want := range map[string]string{
		`m -- npx -y pkg`:                           `m {"command": "npx", "args": ["-y", "pkg"]}`,
		`m npx pkg`:                                 `m {"command": "npx", "args": ["pkg"]}`,
		`m -e A=1 --env B=x=y -- npx -y pkg`:        `m {"command": "npx", "args": ["-y", "pkg"], "env": {"A": "1", "B": "x=y"}}`,
		`-e A=1 B=2 m -- npx -y pkg`:                `-e takes one KEY=VALUE`,
		`m -e A=1 B=2 -- npx`:                       `-e takes one KEY=VALUE`,
		`m example.com/mcp`:                         `there is no file example.com/mcp; for a URL, write https://`,
		`m localhost:3000/mcp`:                      `there is no file localhost:3000/mcp; for a URL, write https://`,
		`m C:/tools/server`:                         `m {"command": "C:/tools/server"`,
		`m ./example.com/mcp`:                       `m {"command": "./example.com/mcp"`,
		`m -e A=1 -e A=2 -- npx KEY=1`:              `m {"command": "npx", "args": ["KEY=1"], "env": {"A": "2"}}`,
		`--transport stdio m -s user -- node a.js`:  `m {"command": "node", "args": ["a.js"]}`,
		`m https://a.b/c`:                           `m {"url": "https://a.b/c"}`,
		`-t http m https://a.b/c -H X-A:\tb`:        `m {"type": "http", "url": "https://a.b/c", "headers": {"X-A": "b"}}`,
		`m https://a.b/c --transport sse`:           `m {"type": "sse", "url": "https://a.b/c"}`,
		`-t streamable-http m https://a.b/c`:        `m {"type": "http", "url": "https://a.b/c"}`,
		`m -- python3.12 a/b`:                       `m {"command": "python3.12", "args": ["a/b"]}`,
		`m`:                                         "name the server, and write its command",
		``:                                          "name the server, and write its command",
		`-t http m npx`:                             `a server on the network has a URL`,
		`-t carrier-pigeon m npx`:                   `--transport "carrier-pigeon" is unknown`,
		`m https://a.b/c x`:                         `nothing behind it but --header`,
		`m https://a.b/c -e A=1`:                    `it gets no --env`,
		`m -H A:b -- npx`:                           `only a server on the network gets headers`,
		`m -e A -- npx`:                             `--env needs KEY=VALUE`,
		`m https://a.b/c -H geheim`:                 `--header needs 'Name: value'`,
		`m npx -y pkg`:                              `write -- before its command`,
		`m npx --token geheim1234geheim1234 -y pkg`: `write -- before its command`,
	} {
		args := append([]string{"add"}, strings.Fields(line)...)
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, `\t`, " ")
		}
		cmd := newAddCommand(&service.Runner{Files: &configfile.Source{Console: console.New(nil, io.Discard, io.Discard)}})
		flags := clients.EntryFlags{}
		got := ""
		err := cmd.ParseFlags(args[1:])
		if err != nil {
			err = cmd.FlagErrorFunc()(cmd, err)
		} else {
			flags.Transport, _ = cmd.Flags().GetString("transport")
			flags.Env, _ = cmd.Flags().GetStringArray("env")
			flags.Headers, _ = cmd.Flags().GetStringArray("header")
			name, entry, failed := flags.Entry(cmd.Flags().Args())
			if err = failed; err == nil {
				got = name + " " + strings.Join(strings.Fields(strings.NewReplacer("{\n", "{", "\n", " ").Replace(entry.Text("mcp.json"))), " ")
				got = strings.NewReplacer("{ ", "{", " }", "}").Replace(got)
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "geheim") {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
