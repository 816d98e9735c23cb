package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// A paste is text for a person to paste, which a message does not cut at maxQuoted bytes.
type paste string

const maxPaste = 2000 // bytes of a paste

// launchers are programs that usually start servers. A command that begins with one and a
// space is a whole command line, and no program has such a name.
var launchers = []string{
	"npx", "npm", "node", "uvx", "uv", "python", "python3", "docker", "podman", "bun", "bunx", "deno", "pnpm", "pnpx", "yarn", "pipx",
	"go", "cargo", "java", "dotnet", "ruby", "php", "sh", "bash", "zsh", "cmd", "metarouter",
}

// commandField returns the function that decodes the command of the entry o.
func commandField(d entryDecoder, s *Server, o *hujson.Object) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if words, ok := jsonc.Strings(m.Value); ok && len(words) > 0 {
			d.mistake(m.Name.StartOffset, `"command" must be a string, and what follows the program belongs in "args"; write %s`, commandLine(words[0], append(words[1:], argumentsOf(o)...)))
			return
		}
		said, err := keys.Text(m.Value)
		if lower := strings.ToLower(said); err == nil && (strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")) {
			d.mistake(m.Name.StartOffset, `"command" is a URL, and starts no program; write "url": %s instead of it`, bounded(quote(secret.Words([]string{said}, "…")[0])))
			return
		}
		d.to(&s.Command)(m)
		if err != nil {
			return
		}
		words := commandline.Words(strings.TrimSpace(said))
		if len(words) > 1 && len(said) <= commandline.MaxScript && slices.Contains(launchers, strings.ToLower(words[0])) {
			d.mistake(m.Name.StartOffset, `"command" is a whole command line, and there is no program of that name; write %s`, commandLine(words[0], append(words[1:], argumentsOf(o)...)))
		}
	}
}

// commandLine returns the two keys of an entry, without secrets in the arguments.
func commandLine(program string, args []string) paste {
	line := `"command": ` + quote(program)
	if len(args) > 0 {
		line += `, "args": ` + quoteAll(args)
	}
	return bounded(line)
}

func bounded(text string) paste { return paste(prose.Cut(text, maxPaste)) }

// quoteAll returns an array of JSON.
func quoteAll(words []string) string {
	var all []string
	for _, w := range secret.Words(words, "…") {
		all = append(all, quote(w))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// quote returns a string of JSON, with < and > as they are.
func quote(s string) string { return string(hujson.String(s)) }

// argumentsField returns the function that decodes the arguments of an entry.
func argumentsField(d *decoder, s *Server) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		at, m := m.Name.StartOffset, d.repaired(m)
		if line, err := keys.Text(m.Value); err == nil {
			d.mistake(at, `"args" must be an array of strings; write "args": %s`, bounded(quoteAll(commandline.Words(line))))
			return
		}
		before := len(d.references)
		d.to(&s.Args)(m)
		if len(d.references) > before {
			d.warn(at, `every program of this machine can read the arguments of others, with the secret in them; write it into "env" if the server can read it there`)
		}
	}
}

// argumentsOf returns the arguments of an entry as they are written.
func argumentsOf(o *hujson.Object) []string {
	m, _ := jsonc.Member(o, "args")
	words, _ := jsonc.Strings(textsOf(m.Value, nil))
	return words
}

// pathOf returns the path under a key of an entry, "" if the entry has no such key.
func (d entryDecoder) pathOf(o *hujson.Object, key string) string {
	m, _ := jsonc.Member(o, key)
	path, _, _ := d.complete(m.Value) // mistakes are reported with the others of the entry
	return d.absolute(path)
}

// startsRouter reports whether the command, or a command that it wraps, would start another router.
// A script may still start one, which METAROUTER_DEPTH prevents.
func (e environment) startsRouter(command string, args []string, cwd string) bool {
	for command, args := range commandline.All(command, args) {
		switch {
		case commandline.Name(command) == "metarouter":
			if rest := commandline.AfterOptions(args, []string{"--config", "--data", "--log-level"}); len(rest) == 0 || rest[0] != "builtin" {
				return true
			}
		case slices.Contains(args, "serve") && e.isOurselves(command, cwd):
			return true // under another name this may be a program that embeds us, so only the word itself counts
		}
	}
	return false
}

// isOurselves reports whether the command is our own executable, also by a link.
func (e environment) isOurselves(command, cwd string) bool {
	if e.executable == "" {
		return false
	}
	if !strings.ContainsAny(command, `/\`) {
		found, err := e.lookPath(command)
		if err != nil {
			return false
		}
		command = found
	} else if !filepath.IsAbs(command) {
		command = filepath.Join(cwd, command)
	}
	theirs, _ := os.Stat(command)
	ours, _ := os.Stat(e.executable)
	return os.SameFile(theirs, ours) // not if there is no such file
}

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
			d.mistake(m.Name.StartOffset, `this is an entry for Windows, which can't run on this system; write the program itself, such as "command": "npx", "args": ["-y", "…"]`)
		}
		return
	}
	words := secret.Words(append([]string{w.Command}, w.Args...), "…")
	d.warn(m.Name.StartOffset, "this is an entry for Windows, and runs here as %q; write that to make it the same everywhere", bounded(strings.Join(words, " ")))
	s.Command, s.Args = w.Command, w.Args
}
