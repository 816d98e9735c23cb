package clients

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// EntryFlags are the flags of 'metarouter add' and 'claude mcp add' that are about the entry.
type EntryFlags struct {
	Transport    string   // --transport
	Env, Headers []string // --env, --header
}

// Entry returns the server's name and its entry. dash is how many of the arguments are
// before "--", or -1 without it.
func (f EntryFlags) Entry(args []string, dash int) (name string, e NewEntry, err error) {
	variables := slices.Clone(f.Env)
	if dash > 1 && len(f.Env) > 0 { // "-e A=1 B=2 -- COMMAND", as claude allows
		var kept []string
		for i, arg := range args {
			if key, _, ok := strings.Cut(arg, "="); i < dash && ok && isVariable(key) {
				variables = append(variables, arg)
				continue
			}
			kept = append(kept, arg)
		}
		args = kept
	}
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
	case remote && len(words) > 1 && (len(f.Headers) == 0 || !strings.Contains(words[1], ":")):
		return "", e, fmt.Errorf("nothing can follow the URL, but %q does", words[1])
	case remote && len(variables) > 0:
		return "", e, errors.New("a server on the network gets no variables; leave out --env, or send a header with --header 'Name: value'")
	case !remote && len(f.Headers) > 0:
		return "", e, errors.New("only a server on the network gets headers; leave out --header, or set a variable with --env KEY=VALUE")
	}
	if remote {
		e.URL = words[0] // behind it are more headers, as claude allows
		if e.Headers, err = pairs(slices.Concat(f.Headers, words[1:]), ":", "--header", "'Name: value'"); err != nil {
			return "", e, err
		}
		return name, e, nil
	}
	if err := urlAsCommand(words[0]); err != nil {
		return "", e, err
	}
	if first, rest, ok := strings.Cut(words[0], " "); ok && len(words) == 1 && !strings.ContainsAny(first, `/\`) {
		if _, err := exec.LookPath(words[0]); err != nil {
			return "", e, fmt.Errorf("the command is one word with spaces; leave out the quotes: metarouter add %s -- %s %s", name, first, rest)
		}
	}
	e.Type, e.Command, e.Args = "", words[0], words[1:]
	if e.Env, err = pairs(variables, "=", "--env", "KEY=VALUE"); err != nil {
		return "", e, err
	}
	e.Cwd, err = startFolder(words)
	return name, e, err
}

// urlAsCommand returns an error if a command is a URL, or one without https://: a host with a
// path that no file has.
func urlAsCommand(word string) error {
	shown := secret.Words([]string{word}, "…")[0]
	if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
		return fmt.Errorf("that is a URL: write %s without --transport stdio, which is for commands", shown)
	}
	host, _, ok := strings.Cut(word, "/")
	if !ok || !strings.Contains(host, ".") || strings.HasPrefix(host, ".") || strings.ContainsFunc(host, func(r rune) bool {
		return !strings.ContainsRune(".-:", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return nil
	}
	if _, err := os.Stat(word); err == nil {
		return nil
	}
	return fmt.Errorf("that is a URL: write https://%s, or ./%s if it is a file", shown, shown)
}

// isVariable reports whether a word can be the name of a variable.
func isVariable(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
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

// IsBehindDash reports whether an option stands after "--", where it is the server's. dash is as for
// [EntryFlags.Entry].
func IsBehindDash(args []string, dash int, option string) bool {
	return dash >= 0 && slices.ContainsFunc(args[dash:], func(arg string) bool {
		return arg == option || strings.HasPrefix(arg, option+"=")
	})
}
