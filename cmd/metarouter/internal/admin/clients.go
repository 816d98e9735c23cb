package admin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

const (
	maxClients = 100 // that a page lists
	maxLabel   = 100 // columns of a client's name or version
)

// clientsOf returns the clients that the router serves, the oldest first.
func clientsOf(a *API) *clientList {
	known, configured := a.mcp.Clients(), a.router.Config().Router.Profiles
	list := &clientList{Total: len(known), Clients: []clientInfo{}}
	for _, k := range known {
		era := "legacy"
		switch k.Revision {
		case "":
			era = ""
		case session.Modern:
			era = "modern"
		}
		k.Name, k.Version = console.Cut(plain.Line(k.Name), maxLabel), console.Cut(plain.Line(k.Version), maxLabel)
		k.Since, k.Last = k.Since.Truncate(0), k.Last.Truncate(0) // without the monotonic clock
		list.Clients = append(list.Clients, clientInfo{k, era, profilesOf(k.Profile, configured)})
	}
	slices.SortFunc(list.Clients, func(a, b clientInfo) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name)) })
	list.Clients = list.Clients[:min(len(list.Clients), maxClients)]
	return list
}

// profilesOf returns the limits of a client. It has chosen profiles, unions of them and [profile.ReadOnly],
// joined by "+".
func profilesOf(chosen string, all map[string]config.Profile) []string {
	choices := []string{}
	if chosen != "" {
		choices = strings.Split(chosen, "+")
	}
	return profile.Applying(all, choices)
}
