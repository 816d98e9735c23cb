package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// planned is what one configuration in place of another would change.
type planned struct {
	Servers struct {
		Added   []string `json:"added"`
		Removed []string `json:"removed"`
		Changed []string `json:"changed"`
	} `json:"servers"`
	Tools struct {
		Added   []string   `json:"added"` // IDs
		Removed []string   `json:"removed"`
		Renamed []renaming `json:"renamed"`
	} `json:"tools"`
	Tokens struct {
		Before int `json:"before"`
		After  int `json:"after"`
	} `json:"tokens"`

	Details  map[string][]string `json:"details"`  // by server that is added or changed: what of it
	Settings []string            `json:"settings"` // keys of "metarouter" that differ
	Unknown  []string            `json:"unknown"`  // servers whose tools are not known
	Named    []string            `json:"named"`    // tools among Added that are known by name alone, and cost nothing in Tokens

	before, after map[string]string // exposed names by ID
	mode          string            // what becomes of it, as the end of a line
}

// A renaming is a tool that clients would see under another name: its ID may be
// another, too, where its owner renames it.
type renaming struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
}

// A side is one of two configurations, and what is known of its tools.
type side struct {
	config  config.Config
	tools   []*registry.NormalizedTool
	names   *server.ToolNames
	unknown []string // servers of which no tool is known
	named   []string // IDs of tools that are known by name alone, sorted
}

func sideOf(c config.Config, p adapter.Preview) side {
	s := side{config: c, unknown: p.Unknown}
	for server, names := range p.Named {
		for _, name := range names {
			s.named = append(s.named, registry.ToolID(server, name))
		}
	}
	slices.Sort(s.named)
	for _, entry := range c.Servers {
		offer := p.Offers[entry.Name]
		for i := range offer.Tools {
			s.tools = append(s.tools, &offer.Tools[i])
		}
	}
	s.names = server.NewNames(s.tools, c.Router.Names, c.Router.Separator)
	return s
}

// mode returns how the tools would be shown, were the router started now.
func (s side) mode() string {
	r := s.config.Router
	switch {
	case r.Mode == server.Direct || r.Mode == server.Search:
		return r.Mode
	case len(s.unknown)+len(s.named) > 0 || selector.ListTokens(s.tools) > r.ToolBudget:
		return server.Search
	}
	return server.Direct
}

// compare says what b in place of a would change.
func compare(a, b side) planned {
	p := planned{Details: make(map[string][]string), Settings: []string{}, Unknown: append([]string{}, b.unknown...), Named: append([]string{}, b.named...)}
	p.Servers.Added, p.Servers.Removed, p.Servers.Changed = []string{}, []string{}, []string{}
	p.Tools.Added, p.Tools.Removed, p.Tools.Renamed = []string{}, []string{}, []renaming{}
	p.servers(a.config.Servers, b.config.Servers)
	p.tools(a, b)
	p.Tokens.Before, p.Tokens.After = selector.ListTokens(a.tools), selector.ListTokens(b.tools)
	p.settings(a.config.Router, b.config.Router)
	switch was, is := a.mode(), b.mode(); {
	case was != is:
		p.mode = fmt.Sprintf("; clients would be shown %s instead of %s from the router's next start", modeWords[is], modeWords[was])
	default:
		p.mode = fmt.Sprintf("; clients are shown %s, as before", modeWords[is])
	}
	return p
}

var modeWords = map[string]string{server.Direct: "all tools", server.Search: "a search"}

func (p *planned) servers(a, b []config.Server) {
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
		case !old.Equal(s):
			p.Servers.Changed = append(p.Servers.Changed, s.Name)
			p.Details[s.Name] = differences(old, s)
			if supervisor.Startable(old) && supervisor.Startable(s) && (old.Hash() != s.Hash() || !slices.Equal(old.InheritEnv, s.InheritEnv)) {
				p.Details[s.Name] = append(p.Details[s.Name], "which starts it anew")
			}
		}
	}
	for _, s := range a {
		if _, gone := before[s.Name]; gone {
			p.Servers.Removed = append(p.Servers.Removed, s.Name)
		}
	}
}

// origin is what a tool is apart from how it is called here.
type origin struct{ server, name string }

func originOf(t *registry.NormalizedTool) origin { return origin{t.Server, t.ServerName()} }

func (p *planned) tools(a, b side) {
	p.before, p.after = make(map[string]string), make(map[string]string)
	before := make(map[origin]*registry.NormalizedTool)
	for _, t := range a.tools {
		p.before[t.ID] = a.names.Exposed(t)
		before[originOf(t)] = t
	}
	for _, t := range b.tools {
		p.after[t.ID] = b.names.Exposed(t)
		old, was := before[originOf(t)]
		delete(before, originOf(t))
		if !was {
			p.Tools.Added = append(p.Tools.Added, t.ID)
		} else if from, to := p.before[old.ID], p.after[t.ID]; from != to {
			p.Tools.Renamed = append(p.Tools.Renamed, renaming{t.ID, from, to})
		}
	}
	for _, t := range a.tools {
		// Nobody knows of a server that is to be started anew which tools it will lack.
		if _, gone := before[originOf(t)]; gone && !slices.Contains(b.unknown, t.Server) {
			p.Tools.Removed = append(p.Tools.Removed, t.ID)
		}
	}
	p.Tools.Added = append(p.Tools.Added, b.named...)
	slices.Sort(p.Tools.Added)
	slices.Sort(p.Tools.Removed)
	slices.SortFunc(p.Tools.Renamed, func(a, b renaming) int { return strings.Compare(a.ID, b.ID) })
}

// settings names the keys of "metarouter" that differ, with their values where these
// are words or numbers, which no secret is.
func (p *planned) settings(a, b config.Router) {
	before, after := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range before.NumField() {
		old, now := before.Field(i), after.Field(i)
		if reflect.DeepEqual(old.Interface(), now.Interface()) {
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
