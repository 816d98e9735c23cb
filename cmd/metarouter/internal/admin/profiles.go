package admin

import (
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/registry"
)

func listProfiles(q *query) (any, error) {
	c, snapshot := q.router.Config(), q.router.Snapshot()
	all := profiles{[]profileInfo{}}
	for _, name := range names(c.Router.Profiles) {
		all.Profiles = append(all.Profiles, profileOf(name, c, snapshot))
	}
	return all, nil
}

// profileOf counts the parts of a catalog that clients of a profile may see.
func profileOf(name string, c config.Config, snapshot *registry.Snapshot) profileInfo {
	rules, p := profile.Of(c.Router.Profiles, name), c.Router.Profiles[name]
	info := profileInfo{Name: name, Servers: []string{}, ReadOnly: p.ReadOnly, Mode: p.Mode}
	for _, s := range c.Servers {
		if rules.Server(s.Name) {
			info.Servers = append(info.Servers, s.Name)
		}
	}
	for _, t := range snapshot.Tools() {
		if !rules.Tool(t) {
			continue
		}
		info.Tools++
		if rules.Asks(t) != (profile.Ask{}) {
			info.Asked++
		}
		if rules.Fixed(t) != nil {
			info.Fixed++
		}
	}
	for _, p := range snapshot.Prompts() {
		if rules.Name(p.Server, p.Name) {
			info.Prompts++
		}
	}
	for _, r := range snapshot.Resources() {
		if rules.URI(r.Server, r.URI) {
			info.Resources++
		}
	}
	for _, t := range snapshot.Templates() {
		if rules.Name(t.Server, t.URITemplate) {
			info.Resources++
		}
	}
	return info
}
