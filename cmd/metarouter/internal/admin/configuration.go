package admin

import (
	"maps"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
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
		e.Command = doctor.CommandLine(s)
	}
	if s.URL != "" {
		e.URL = doctor.BareURL(s)
	}
	return e
}

func names[T any](values map[string]T) []string { return slices.Sorted(maps.Keys(values)) }
