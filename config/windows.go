package config

import (
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// leaveWindows replaces a command line for Windows by the command that it runs, on other systems. A
// command line that can't run here keeps the server from being started.
func (d entryDecoder) leaveWindows(s *Server, o *hujson.Object) {
	if d.env.windows || d.env.asWritten || s.Transport != Stdio {
		return
	}
	w, ok := program.ForWindows(s.Command, s.Args)
	if !ok {
		return
	}
	if _, err := d.env.lookPath(s.Command); err == nil {
		return // a program of this system
	}
	m, _ := jsonc.Member(o, "command")
	_, err := d.env.lookPath(w.Command)
	if w.Command == "" || err != nil && !w.Known && w.Command != "metarouter" {
		if !s.Disabled {
			d.reject(m.Name.StartOffset, `this is an entry for Windows, which can't run on this system; write the program itself, such as "command": "npx", "args": ["-y", "…"]`)
		}
		return
	}
	words := secret.Words(append([]string{w.Command}, w.Args...), "…")
	d.warn(m.Name.StartOffset, "this is an entry for Windows, and runs here as %q; write that to make it the same everywhere", bounded(strings.Join(words, " ")))
	s.Command, s.Args = w.Command, w.Args
}
