package service

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/config"
	serverprocess "github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A place is the folder and the variables of the process of a client that shares the router. It is a [supervisor.Place].
type place struct {
	folder    string
	variables map[string]string
	shell     func(name string) (value string, ok bool) // the login shell's variables
	ours      func(name string) (value string, ok bool) // the variables of the router's entries
	router    *adapter.Router

	mu       sync.Mutex // guards the fields below
	variants map[string]*supervisor.Variant
	edited   <-chan struct{} // closed when variants are of an old configuration
}

// placeOf returns the place of a client.
func placeOf(c daemon.Client, r *adapter.Router, local *Runner) *place {
	at := &place{folder: c.Folder, router: r, variables: make(map[string]string), shell: local.base.Lookup, ours: local.lookup}
	for _, variable := range c.Environ {
		name, value, _ := strings.Cut(variable, "=")
		at.variables[name] = value
	}
	return at
}

// lookup returns the value of a variable for the client: its own, or else its login shell's.
func (p *place) lookup(name string) (value string, ok bool) {
	if value, ok = p.variables[name]; ok {
		return value, true
	}
	return p.shell(name)
}

// Variant implements [supervisor.Place].
func (p *place) Variant(server string) *supervisor.Variant {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.edited == nil || signal.IsClosed(p.edited) {
		p.edited = p.router.Edited()
		p.variants = p.variantsOf(p.router.Configured())
	}
	return p.variants[server]
}

// variantsOf returns the client's variants of servers.
func (p *place) variantsOf(c config.Config) map[string]*supervisor.Variant {
	all := make(map[string]*supervisor.Variant)
	theirs := sync.OnceValue(func() config.Config { return c.With(p.lookup) })
	for i, entry := range c.Servers {
		names := slices.DeleteFunc(slices.Clone(entry.Variables), func(name string) bool { return p.agrees(name, p.ours) })
		if len(names) > 0 {
			if entry = theirs().Servers[i]; entry.Misconfigured != "" { // it needs the router's value
				entry, names = c.Servers[i], nil
			}
		}
		names = append(names, p.inherit(&entry)...)
		var reasons []string
		if len(names) > 0 {
			reasons = append(reasons, "clients differ in "+strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", "))
		}
		if entry.PerFolder && p.folder != "" && p.folder != entry.Cwd {
			entry.Cwd = p.folder
			reasons = append(reasons, "it runs in the folder of the client, "+p.folder)
		}
		if len(reasons) > 0 {
			all[entry.Name] = &supervisor.Variant{Entry: entry, Reason: strings.Join(reasons, " and ")}
		}
	}
	return all
}

// agrees reports whether a variable has the same value for the client and the router, of which ours returns it.
func (p *place) agrees(name string, ours func(name string) (value string, ok bool)) bool {
	theirs, ok := p.lookup(name)
	value, has := ours(name)
	return ok == has && value == theirs
}

// inherit gives an entry the client's values of the variables that it inherits, and returns the names of those that differ.
func (p *place) inherit(entry *config.Server) (names []string) {
	names = slices.DeleteFunc(serverprocess.InheritedNames(slices.Collect(maps.Keys(p.variables)), entry.InheritEnv), func(name string) bool {
		_, own := entry.Env[name]
		return own || p.agrees(name, secret.LookupEnv)
	})
	if len(names) > 0 {
		entry.Env = maps.Collect(maps.All(entry.Env)) // a copy, which is never nil
	}
	for _, name := range names {
		entry.Env[name] = p.variables[name]
	}
	unset := slices.DeleteFunc(slices.Clone(entry.InheritEnv), func(name string) bool {
		_, own := entry.Env[name]
		_, ok := p.lookup(name)
		return own || ok || strings.HasSuffix(name, "*") || p.agrees(name, secret.LookupEnv)
	})
	entry.InheritEnv = slices.DeleteFunc(slices.Clone(entry.InheritEnv), func(name string) bool { return slices.Contains(unset, name) })
	return append(names, unset...)
}
