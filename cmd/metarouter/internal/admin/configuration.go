package admin

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Loaded records that the router uses c from now on.
func (a *API) Loaded(c config.Config) {
	a.mask.Learn(c)
	shown := &configuration{
		Files: append([]string{}, c.Files...), Loaded: time.Now(), Problems: append([]config.Problem{}, c.Problems...), Entries: []entry{},
	}
	for _, s := range c.Servers {
		shown.Entries = append(shown.Entries, entryOf(s))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = shown
}

// configuration returns the configuration as the page shows it. The pointer changes with it.
func (a *API) configuration() *configuration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shown
}

func entryOf(s config.Server) entry {
	e := entry{Name: s.Name, Transport: string(s.Transport), Env: names(s.Env), Headers: names(s.Headers)}
	if s.Command != "" {
		e.Command = commandLine(s)
	}
	if u, err := url.Parse(s.URL); err == nil && s.URL != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		e.URL = secret.URL(u.String(), hidden)
	}
	return e
}

func names[T any](values map[string]T) []string { return slices.Sorted(maps.Keys(values)) }

// commandLine returns the command as a person would type it. It hides words that look like
// secrets, and cuts very long arguments.
func commandLine(s config.Server) string {
	words := []string{commandline.Quote(s.Command)}
	for _, word := range secret.Words(s.Args, hidden) {
		words = append(words, commandline.Quote(shortened(word)))
	}
	return strings.Join(words, " ")
}

const hidden = "…"
