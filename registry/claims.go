package registry

import (
	"maps"
	"slices"
	"time"
)

// Claims say which server had a URI of a resource, or a URI template, first. They are
// immutable. A URI belongs to its server as long as the configuration has the server, also
// while that is disabled, has failed, or lists the URI no more.
type Claims map[string]claim

// A claim is a server's claim to a URI.
type claim struct {
	Server string `json:"server"`
	// Since is when the server's first list had the URI, in Unix milliseconds. For the first
	// list of a run it is when the server came into the configuration, or the router started:
	// which of two new servers answers sooner decides nothing.
	Since int64 `json:"since"`
}

// Bounds of the claims: a further URI, or a longer one, belongs to no server.
const (
	maxClaims  = 200_000
	maxOwn     = 50_000  // of one server: above, those to URIs that it lists no more are dropped
	maxClaimed = 2 << 10 // bytes
)

// A claimant is a server of the configuration.
type claimant struct {
	place  int   // in the configuration
	since  int64 // when it came into the configuration, or the router started
	listed bool  // in this run
}

// Configure sets the servers of the configuration, in its order. Others lose their claims to
// those that list the same. stored are claims of an earlier run, or nil. Before the first
// Configure no server has claims.
func (r *Registry) Configure(servers []string, stored Claims) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.snapshot.Load()
	claimants := make(map[string]claimant, len(servers))
	for i, name := range servers {
		c, known := r.claimants[name]
		if !known {
			c.since = time.Now().UnixMilli()
		}
		c.place = i
		claimants[name] = c
	}
	r.claimants = claimants
	claims := make(Claims)
	maps.Copy(claims, stored)
	maps.Copy(claims, now.claims)
	maps.DeleteFunc(claims, func(_ string, c claim) bool { _, stays := claimants[c.Server]; return !stays })
	for _, name := range servers {
		claims = r.claim(claims, name, now.servers[name])
	}
	if !maps.Equal(claims, now.claims) {
		next := *now
		next.claims, next.Version = claims, now.Version+1
		r.publish(&next)
	}
}

// claim returns the claims after a server has listed its offer. r.mu must be held.
func (r *Registry) claim(claims Claims, server string, l *Listing) Claims {
	c, configured := r.claimants[server]
	if !configured || l == nil {
		return claims
	}
	since, all := c.since, l.uris()
	if c.listed {
		since = time.Now().UnixMilli()
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(uri string) bool {
		was, taken := claims[uri]
		return taken && (was.Server == server || was.Since < since || was.Since == since && r.claimants[was.Server].place < c.place) || len(uri) > maxClaimed
	})
	if len(fresh) == 0 {
		return claims
	}
	claims = maps.Clone(claims)
	listed, own, gone := make(map[string]bool, len(all)), 0, 0
	for _, uri := range all {
		listed[uri] = true
	}
	for uri, was := range claims {
		if was.Server == server {
			own++
			if !listed[uri] {
				gone++
			}
		}
	}
	if len(listed)+gone > maxOwn { // a server with other URIs each time would leave none for others
		maps.DeleteFunc(claims, func(uri string, was claim) bool { return was.Server == server && !listed[uri] })
		own -= gone
	}
	for _, uri := range fresh {
		if _, taken := claims[uri]; (taken || len(claims) < maxClaims) && own < maxOwn {
			claims[uri] = claim{server, since}
			own++
		}
	}
	return claims
}

// uris returns the URIs and URI templates of a listing, those of skills' files too.
func (l *Listing) uris() (all []string) {
	for _, r := range slices.Concat(l.Resources, l.Templates) {
		all = append(all, r.URI)
	}
	for _, s := range l.Skills {
		for _, file := range s.Files() {
			all = append(all, file.URI)
		}
	}
	return all
}

// listed notes that the server has listed its offer in this run, and returns the
// snapshot with its claims. r.mu must be held.
func (r *Registry) listed(next *Snapshot, server string) *Snapshot {
	claims := r.claim(next.claims, server, next.servers[server])
	if c, ok := r.claimants[server]; ok {
		c.listed = true
		r.claimants[server] = c
	}
	if maps.Equal(claims, next.claims) {
		return next
	}
	claimed := *next
	claimed.claims = claims
	return &claimed
}

// Claims returns the claims to URIs.
func (s *Snapshot) Claims() Claims { return s.claims }
