package service

import (
	"maps"
	"os"
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
	router    *adapter.Router

	mu       sync.Mutex // guards the fields below
	variants map[string]*supervisor.Variant
	edited   <-chan struct{} // closed when variants are of an old configuration
}

// placeOf returns the place of a client. shell returns the login shell's variables.
func placeOf(c daemon.Client, r *adapter.Router, shell func(name string) (value string, ok bool)) *place {
	at := &place{folder: c.Folder, router: r, variables: make(map[string]string), shell: shell}
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

// lend gives the router the client's variables that it lacks and that all servers get, or that it needs to start a server, and
// reports whether there are some of those: then the configuration is to be read again.
func (p *place) lend() (needed bool) {
	serverprocess.Adopt(p.variables)
	return lend(p.router.Configured(), p.lookup)
}

// lend gives this process variables that a server of the configuration lacks to start, and reports whether there are some.
func lend(c config.Config, lookup func(name string) (value string, ok bool)) (needed bool) {
	for _, s := range c.Servers {
		for _, name := range s.Variables {
			value, ok := lookup(name)
			if _, has := secret.LookupEnv(name); ok && !has && s.Misconfigured != "" {
				os.Setenv(name, value)
				needed = true
			}
		}
	}
	return needed
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
		names := slices.DeleteFunc(slices.Clone(entry.Variables), p.agrees)
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

// agrees reports whether a variable has the same value for the client and the router.
func (p *place) agrees(name string) bool {
	theirs, ok := p.lookup(name)
	ours, has := secret.LookupEnv(name)
	return ok == has && ours == theirs
}

// inherit gives an entry the client's values of the variables that it inherits, and returns the names of those that differ.
func (p *place) inherit(entry *config.Server) (names []string) {
	names = slices.DeleteFunc(serverprocess.InheritedNames(slices.Collect(maps.Keys(p.variables)), entry.InheritEnv), p.agrees)
	names = slices.DeleteFunc(names, func(name string) bool { _, own := entry.Env[name]; return own })
	if len(names) > 0 {
		entry.Env = maps.Clone(entry.Env)
		if entry.Env == nil {
			entry.Env = make(map[string]string)
		}
	}
	for _, name := range names {
		entry.Env[name] = p.variables[name]
	}
	unset := slices.DeleteFunc(slices.Clone(entry.InheritEnv), func(name string) bool {
		_, own := entry.Env[name]
		_, ok := p.lookup(name)
		return own || ok || strings.HasSuffix(name, "*") || p.agrees(name)
	})
	entry.InheritEnv = slices.DeleteFunc(slices.Clone(entry.InheritEnv), func(name string) bool { return slices.Contains(unset, name) })
	return append(names, unset...)
}
