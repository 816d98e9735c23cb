package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// EntryFlags are the flags of 'metarouter add' and 'claude mcp add' that are about the entry.
type EntryFlags struct {
	Transport    string   // --transport
	Env, Headers []string // --env, --header
}

// A NewEntry is the entry of a server to be added.
type NewEntry struct {
	Cwd string // absolute, or "" for the router's own

	all fields
}

// Text returns the entry as it is written into the file at path.
func (e NewEntry) Text(path string) string {
	if e.all[0].key == "url" && filepath.Base(path) == ".mcp.json" {
		e.all = slices.Insert(e.all, 0, field{"type", "http"}) // Claude Code, which reads such a file too, takes an entry without it for a command
	}
	return alone.write(e.all)
}

// Entry returns the name of a server and its entry: from a name with a URL, or with a command and its arguments.
func (f EntryFlags) Entry(args []string) (name string, e NewEntry, err error) {
	if len(args) < 2 {
		return "", e, errors.New("name the server, and write its command or its URL: metarouter add NAME -- COMMAND ARGUMENT, or metarouter add NAME URL")
	}
	name, words := args[0], args[1:]
	if len(f.Env) > 0 && (strings.Contains(name, "=") || strings.Contains(words[0], "=")) {
		return "", e, errors.New("-e takes one KEY=VALUE; write -e before each, and the server's name and -- before the command")
	}
	isURL := strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://")
	isRemote := isURL
	switch f.Transport {
	case "":
	case "stdio":
		isRemote = false
	case "http", "sse", "streamable-http":
		isRemote = true
		e.all = fields{{"type", strings.TrimPrefix(f.Transport, "streamable-")}}
	default:
		return "", e, fmt.Errorf("--transport %q is unknown; write stdio, http or sse", f.Transport)
	}
	switch {
	case isRemote && (!isURL || len(words) > 1 || len(f.Env) > 0):
		return "", e, errors.New("a server on the network has a URL, such as https://example.com/mcp, and nothing behind it but --header 'Name: value'; it gets no --env")
	case isRemote:
		e.all = append(e.all, field{"url", words[0]})
		err = e.pairs("headers", f.Headers, ":", "--header needs 'Name: value'")
		return name, e, err
	case len(f.Headers) > 0:
		return "", e, errors.New("only a server on the network gets headers; leave out --header, or set a variable with --env KEY=VALUE")
	}
	if host, _, ok := strings.Cut(words[0], "/"); ok && len(words) == 1 && len(host) > len("C:") && strings.ContainsAny(strings.TrimLeft(host, "."), ".:") && !Exists(words[0]) {
		return "", e, fmt.Errorf("there is no file %s; for a URL, write https:// or http:// before it", secret.Words(words, "…")[0])
	}
	if e.all = append(e.all, field{"command", words[0]}); len(words) > 1 {
		e.all = append(e.all, field{"args", words[1:]})
	}
	if err = e.pairs("env", f.Env, "=", "--env needs KEY=VALUE"); err != nil {
		return "", e, err
	}
	if e.Cwd, err = startFolder(words); e.Cwd != "" {
		e.all = append(e.all, field{"cwd", e.Cwd})
	}
	return name, e, err
}

// pairs adds the names and values that were given to a flag, of which the last one of a name counts. needs says how they are written.
func (e *NewEntry) pairs(key string, given []string, separator, needs string) error {
	var all fields
	for _, text := range given {
		name, value, ok := strings.Cut(text, separator)
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return fmt.Errorf("%s, but a value without %q was given", needs, separator) // not the value, which may be secret
		}
		if separator == ":" {
			value = strings.TrimSpace(value)
		}
		all = slices.DeleteFunc(all, func(f field) bool { return f.key == name })
		all = append(all, field{name, value})
	}
	if all != nil {
		e.all = append(e.all, field{key, all})
	}
	return nil
}

// startFolder returns the current folder if words of an entry are relative to it, since a server
// starts in the folder of the router.
func startFolder(words []string) (string, error) {
	if !slices.ContainsFunc(words, func(word string) bool {
		word = filepath.ToSlash(word)
		return word == "." || word == ".." || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")
	}) {
		return "", nil
	}
	return os.Getwd()
}
