package catalog

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/offerstore"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A Preview is the offers of a configuration's servers as far as they are known without a start.
type Preview struct {
	Offers  map[string]registry.Offer // by server
	Unknown []string                  // servers whose tools are not known
	Named   map[string][]string       // tools that are known by name alone, by server
}

// NewPreview reads the offers that are stored in the data folder. It finds the offer of another
// configuration's server, too, if that differs only in its name, its variables or the rules for its
// tools. other may be nil.
func NewPreview(c config.Config, other *config.Config, dataDir string) Preview {
	store := offerstore.NewStore(dataDir, zap.NewNop())
	load := func(c *config.Config, s config.Server) (registry.Offer, bool) {
		return store.Load(storeKey(s, c.Router.Capabilities), s.Name)
	}
	find := finder(other)
	p := Preview{Offers: make(map[string]registry.Offer), Named: make(map[string][]string)}
	for _, s := range c.Servers {
		if !supervisor.Startable(s) {
			continue
		}
		if o, ok := load(&c, s); ok {
			p.Offers[s.Name] = o
			continue
		}
		if like, ok := find(s); ok {
			if o, ok := load(other, like); ok {
				offer, named := refiltered(o, s)
				p.Offers[s.Name] = offer
				if len(named) > 0 {
					p.Named[s.Name] = named
				}
				continue
			}
		}
		p.Unknown = append(p.Unknown, s.Name)
	}
	return p
}

// finder returns a function that finds an entry of c: one that starts the same process, under any name,
// or else one of the same name that differs at most in its variables and headers.
func finder(c *config.Config) func(config.Server) (config.Server, bool) {
	byHash, byName := make(map[string]config.Server), make(map[string]config.Server)
	if c != nil {
		for _, s := range c.Servers {
			if !supervisor.Startable(s) {
				continue
			}
			if _, again := byHash[s.Hash()]; !again {
				byHash[s.Hash()] = s
			}
			byName[s.Name] = s
		}
	}
	return func(s config.Server) (config.Server, bool) {
		if like, ok := byHash[s.Hash()]; ok {
			return like, true
		}
		like, ok := byName[s.Name]
		return like, ok && sameProgram(like, s)
	}
}

// sameProgram reports whether two entries differ at most in their variables, headers and our own keys:
// most servers offer the same then.
func sameProgram(a, b config.Server) bool {
	return a.Transport == b.Transport && a.Command == b.Command && slices.Equal(a.Args, b.Args) && a.Cwd == b.Cwd && a.URL == b.URL
}

// refiltered returns the tools of an offer by the rules of another entry for the same server. named are
// tools that the rules allow and that the offer has by name alone.
func refiltered(o registry.Offer, s config.Server) (now registry.Offer, named []string) {
	rules := rulesOf(s)
	for _, d := range o.Dropped {
		if d.Kind == registry.KindTool && d.Filter != "" {
			if _, refused := rules.Excludes(d.Name); !refused {
				named = append(named, cmp.Or(rules.Rename[d.Name], d.Name))
			}
		}
	}
	for _, t := range o.Tools {
		name := t.ServerName()
		if _, refused := rules.Excludes(name); refused {
			continue
		}
		now.Tools = append(now.Tools, renamed(t, s.Name, name, rules))
	}
	return now, named
}

// renamed returns the tool for a server of another name. own is the server's own name of the tool.
func renamed(t registry.NormalizedTool, server, own string, rules discovery.Rules) registry.NormalizedTool {
	t.Server, t.Name, t.Original = server, own, ""
	if ours := rules.Rename[own]; ours != "" && ours != own {
		t.Name, t.Original = ours, own
	}
	t.ID = registry.ID(server, t.Name)
	t.Definition = wire.SetMember(t.Definition, "name", wire.AppendString(nil, t.Name))
	return t
}
