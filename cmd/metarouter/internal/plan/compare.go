// Package plan finds the changes that one configuration in place of another would make: to servers,
// tools, the names under which clients see them, and the cost of the list of tools.
//
// [Compare] is pure. It takes the tools of a configuration from an
// [adapter.Preview].
package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/tokencount"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A Plan has the changes that one configuration in place of another would make.
type Plan struct {
	Servers struct {
		Added   []string `json:"added"`
		Removed []string `json:"removed"`
		Changed []string `json:"changed"`
	} `json:"servers"`
	Tools struct {
		Added   []string   `json:"added"` // IDs
		Removed []string   `json:"removed"`
		Renamed []Renaming `json:"renamed"`
	} `json:"tools"`
	Tokens struct {
		Before int `json:"before"`
		After  int `json:"after"`
	} `json:"tokens"`

	Details  map[string][]string `json:"details"`  // by added or changed server: the changes of its entry
	Settings []string            `json:"settings"` // keys of "metarouter" that differ
	Unknown  []string            `json:"unknown"`  // servers with unknown tools
	Named    []string            `json:"named"`    // tools among Added of which only the name is known; Tokens does not count them

	Before map[string]string `json:"-"` // exposed names before, by ID
	After  map[string]string `json:"-"` // exposed names after, by ID
	Mode   string            `json:"-"` // how tools are shown to clients, as the end of a line

	// Restart are the keys among Settings that take effect at the router's next start.
	Restart []string `json:"-"`
}

// A Renaming is a tool that clients would see under another name. Its ID may differ too,
// if "tools", "rename" changes.
type Renaming struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
}

// A Side is one of two configurations, with its known tools.
type Side struct {
	config  config.Config
	tools   []*registry.NormalizedTool
	names   *exposure.ToolNames
	unknown []string // servers without any known tool
	named   []string // IDs of tools of which only the name is known, sorted
}

// SideOf returns the side of a configuration. A preview knows its tools.
func SideOf(c config.Config, p adapter.Preview) Side {
	s := Side{config: c, unknown: p.Unknown}
	for server, names := range p.Named {
		for _, name := range names {
			s.named = append(s.named, registry.ID(server, name))
		}
	}
	slices.Sort(s.named)
	for _, entry := range c.Servers {
		offer := p.Offers[entry.Name]
		for i := range offer.Tools {
			s.tools = append(s.tools, &offer.Tools[i])
		}
	}
	s.names = exposure.OfTools(s.tools, c.Router.Names, c.Router.Separator, c.Router.Gateway.Prefix)
	return s
}

// mode returns how the tools would be shown, were the router started now.
func (s Side) mode() string {
	r := s.config.Router
	return exposure.ModeFor(r.Mode, tokencount.Of(s.tools), r.ToolBudget)
}

// Compare returns the changes that b in place of a would make.
func Compare(a, b Side) Plan {
	p := CompareServers(a.config.Servers, b.config.Servers)
	p.Settings, p.Unknown, p.Named = []string{}, append([]string{}, b.unknown...), append([]string{}, b.named...)
	p.Tools.Added, p.Tools.Removed, p.Tools.Renamed = []string{}, []string{}, []Renaming{}
	p.tools(a, b)
	p.Tokens.Before, p.Tokens.After = tokencount.Of(a.tools), tokencount.Of(b.tools)
	p.settings(a.config.Router, b.config.Router)
	p.Restart = config.RestartKeys(a.config.Router, b.config.Router)
	switch was, is := a.mode(), b.mode(); {
	case was == is:
		p.Mode = fmt.Sprintf("; clients are shown %s, as before", modeWords[is])
	case a.config.Router.Mode == b.config.Router.Mode && a.config.Router.ToolBudget == b.config.Router.ToolBudget:
		p.Mode = fmt.Sprintf("; clients would be shown %s instead of %s from the router's next start", modeWords[is], modeWords[was])
	default:
		p.Mode = fmt.Sprintf("; clients would be shown %s instead of %s", modeWords[is], modeWords[was])
	}
	if b.config.Router.Mode == exposure.Auto && b.mode() == exposure.Direct && len(b.unknown)+len(b.named) > 0 {
		p.Mode += fmt.Sprintf(", unless the tools that are not known yet cost more than %d tokens", b.config.Router.ToolBudget-p.Tokens.After)
	}
	return p
}

var modeWords = map[string]string{exposure.Direct: "all tools", exposure.Search: "the search tools", exposure.Code: "the tools for scripts"}

// CompareServers returns a plan with the changes of the entries of servers alone.
func CompareServers(a, b []config.Server) Plan {
	p := Plan{Details: make(map[string][]string)}
	p.Servers.Added, p.Servers.Removed, p.Servers.Changed = []string{}, []string{}, []string{}
	before := make(map[string]config.Server)
	for _, s := range a {
		before[s.Name] = s
	}
	for _, s := range b {
		old, was := before[s.Name]
		delete(before, s.Name)
		switch {
		case !was:
			p.Servers.Added = append(p.Servers.Added, s.Name)
			p.Details[s.Name] = []string{runs(s)}
			if s.Disabled {
				p.Details[s.Name] = append(p.Details[s.Name], "disabled")
			} else if s.Misconfigured != "" {
				p.Details[s.Name] = append(p.Details[s.Name], "can't be started")
			}
		case !reflect.DeepEqual(old, s):
			p.Servers.Changed = append(p.Servers.Changed, s.Name)
			p.Details[s.Name] = differences(old, s)
			if supervisor.Startable(old) && supervisor.Startable(s) && (old.Hash() != s.Hash() || !slices.Equal(old.InheritEnv, s.InheritEnv) || old.KeepStrays != s.KeepStrays) {
				p.Details[s.Name] = append(p.Details[s.Name], "the server is started again")
			}
		}
	}
	for _, s := range a {
		if _, gone := before[s.Name]; gone {
			p.Servers.Removed = append(p.Servers.Removed, s.Name)
		}
	}
	return p
}

// An origin identifies a tool whatever the configuration calls it.
type origin struct{ server, name string }

func originOf(t *registry.NormalizedTool) origin { return origin{t.Server, t.ServerName()} }

func (p *Plan) tools(a, b Side) {
	p.Before, p.After = make(map[string]string), make(map[string]string)
	before := make(map[origin]*registry.NormalizedTool)
	for _, t := range a.tools {
		p.Before[t.ID] = a.names.Exposed(t)
		before[originOf(t)] = t
	}
	for _, t := range b.tools {
		p.After[t.ID] = b.names.Exposed(t)
		old, was := before[originOf(t)]
		delete(before, originOf(t))
		if !was {
			p.Tools.Added = append(p.Tools.Added, t.ID)
		} else if from, to := p.Before[old.ID], p.After[t.ID]; from != to {
			p.Tools.Renamed = append(p.Tools.Renamed, Renaming{t.ID, from, to})
		}
	}
	for _, t := range a.tools {
		// Which tools a server will lack is not known before it has started again.
		if _, gone := before[originOf(t)]; gone && !slices.Contains(b.unknown, t.Server) {
			p.Tools.Removed = append(p.Tools.Removed, t.ID)
		}
	}
	p.Tools.Added = append(p.Tools.Added, b.named...)
	slices.Sort(p.Tools.Added)
	slices.Sort(p.Tools.Removed)
	slices.SortFunc(p.Tools.Renamed, func(a, b Renaming) int { return strings.Compare(a.ID, b.ID) })
}

// settings names the keys of "metarouter" that differ, with their values where these
// are words or numbers, which no secret is.
func (p *Plan) settings(a, b config.Router) {
	before, after := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range before.NumField() {
		old, now := before.Field(i), after.Field(i)
		if !before.Type().Field(i).IsExported() || reflect.DeepEqual(old.Interface(), now.Interface()) {
			continue
		}
		if old, ok := old.Interface().(map[string]config.Profile); ok {
			for _, d := range differentKeys(old, b.Profiles) {
				p.Settings = append(p.Settings, "profile "+d[1:]+map[byte]string{'+': " added", '-': " removed"}[d[0]])
			}
			continue
		}
		key := before.Type().Field(i).Name
		key = strings.ToLower(key[:1]) + key[1:]
		if key == "hTTP" {
			key = "http"
		}
		switch old.Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
			key += fmt.Sprintf(" %v → %v", old.Interface(), now.Interface())
		}
		p.Settings = append(p.Settings, key)
	}
}
