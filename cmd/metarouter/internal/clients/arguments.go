package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// EntryFlags are the flags of 'metarouter add' and 'claude mcp add' that are about the entry.
type EntryFlags struct {
	Transport    string   // --transport
	Env, Headers []string // --env, --header
}

// Entry returns the name of a server and its entry: from a name with a URL, or with a command and its arguments.
func (f EntryFlags) Entry(args []string) (name string, e NewEntry, err error) {
	if len(args) < 2 {
		return "", e, errors.New("name the server, and write its command or its URL: metarouter add NAME -- COMMAND ARGUMENT, or metarouter add NAME URL")
	}
	name, words := args[0], args[1:]
	isURL := strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://")
	switch f.Transport {
	case "", "stdio", "http", "sse":
		e.Type = f.Transport
	case "streamable-http":
		e.Type = "http"
	default:
		return "", e, fmt.Errorf("--transport %q is unknown; write stdio, http or sse", f.Transport)
	}
	remote := e.Type == "http" || e.Type == "sse" || e.Type == "" && isURL
	switch {
	case remote && !isURL:
		return "", e, fmt.Errorf("--transport %s needs a URL, such as https://example.com/mcp, instead of %q", f.Transport, words[0])
	case remote && len(words) > 1:
		return "", e, errors.New("nothing can follow the URL; write each header behind a --header of its own")
	case remote && len(f.Env) > 0:
		return "", e, errors.New("a server on the network gets no variables; leave out --env, or send a header with --header 'Name: value'")
	case !remote && len(f.Headers) > 0:
		return "", e, errors.New("only a server on the network gets headers; leave out --header, or set a variable with --env KEY=VALUE")
	}
	if remote {
		e.URL = words[0]
		e.Headers, err = pairs(f.Headers, ":", "--header", "'Name: value'")
		return name, e, err
	}
	e.Type, e.Command, e.Args = "", words[0], words[1:]
	if e.Env, err = pairs(f.Env, "=", "--env", "KEY=VALUE"); err != nil {
		return "", e, err
	}
	e.Cwd, err = startFolder(words)
	return name, e, err
}

// pairs returns the names and values that were given to a flag.
func pairs(given []string, separator, flag, form string) (all [][2]string, err error) {
	for _, text := range given {
		name, value, ok := strings.Cut(text, separator)
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("%s needs %s, but a value without %q was given", flag, form, separator) // not the value, which may be secret
		}
		if separator == ":" {
			value = strings.TrimSpace(value)
		}
		all = slices.DeleteFunc(all, func(p [2]string) bool { return p[0] == name }) // the last one counts
		all = append(all, [2]string{name, value})
	}
	return all, nil
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
