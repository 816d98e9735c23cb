package serve

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
	router    *adapter.Parts

	mu       sync.Mutex // guards the fields below
	variants map[string]*supervisor.Variant
	edited   <-chan struct{} // closed when variants are of an old configuration
}

// placeOf returns the place of a client.
func placeOf(c daemon.Client, r *adapter.Parts) *place {
	p := &place{folder: c.Folder, router: r, variables: make(map[string]string)}
	for _, variable := range c.Environ {
		name, value, _ := strings.Cut(variable, "=")
		p.variables[name] = value
	}
	return p
}

// lend gives the router the client's variables that it lacks and that servers get, and reports whether entries refer to some of
// them: then the configuration is to be read again.
func (p *place) lend() (needed bool) {
	serverprocess.Adopt(p.variables)
	for _, s := range p.router.Configured().Servers {
		for _, name := range slices.Concat(s.Variables, s.InheritEnv) {
			value, ok := p.variables[name]
			if _, has := secret.LookupEnv(name); ok && !has {
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
		p.variants = variantsOf(p.router.Configured(), p.folder, p.variables)
	}
	return p.variants[server]
}

// variantsOf returns the servers of which a client with this folder and these variables has a variant.
func variantsOf(c config.Config, folder string, variables map[string]string) map[string]*supervisor.Variant {
	differs := func(name string) bool {
		theirs, ok := variables[name]
		ours, has := secret.LookupEnv(name)
		return ok && has && ours != theirs
	}
	theirs := sync.OnceValue(func() config.Config {
		return c.With(func(name string) (string, bool) {
			if value, ok := variables[name]; ok {
				return value, true
			}
			return secret.LookupEnv(name)
		})
	})
	all := make(map[string]*supervisor.Variant)
	for i, entry := range c.Servers {
		referred := slices.DeleteFunc(slices.Clone(entry.Variables), func(name string) bool { return !differs(name) })
		inherited := slices.DeleteFunc(serverprocess.InheritedNames(slices.Collect(maps.Keys(variables)), entry.InheritEnv), func(name string) bool {
			_, set := entry.Env[name]
			return set || !differs(name)
		})
		var reasons []string
		if len(referred) > 0 {
			entry = theirs().Servers[i]
		}
		if len(inherited) > 0 {
			entry.Env = maps.Clone(entry.Env)
			if entry.Env == nil {
				entry.Env = make(map[string]string)
			}
			for _, name := range inherited {
				entry.Env[name] = variables[name]
			}
		}
		if names := slices.Compact(slices.Sorted(slices.Values(append(referred, inherited...)))); len(names) > 0 {
			reasons = append(reasons, "another value of "+strings.Join(names, ", "))
		}
		if entry.PerFolder && folder != "" && folder != entry.Cwd {
			entry.Cwd = folder
			reasons = append(reasons, "the folder "+folder)
		}
		if len(reasons) > 0 {
			all[entry.Name] = &supervisor.Variant{Entry: entry, Reason: strings.Join(reasons, " and ")}
		}
	}
	return all
}
