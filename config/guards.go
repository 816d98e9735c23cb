package config

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
)

// A closing is the effect of a mistake about a guarding key, in words that complete "so …".
type closing string

const (
	theFile         closing = "the file is not used" // the one before goes on; at the start the router does not start
	theServer       closing = "the server is not started"
	theTokens       closing = "no token of the file lets a client in"
	theIssuers      closing = "no access token lets a client in"
	theCertificates closing = "no certificate lets a client in"
	allClients      closing = "no client is let in without a token"
	allHosts        closing = "only the hosts and origins of the default are allowed"
	allProfiles     closing = "no profile allows anything" // and clients without a profile see nothing
	ownProfiles     closing = "no profile of the file allows anything"
	defaultProfile  closing = "clients without a profile see nothing"
	theCluster      closing = "the router joins no cluster"
)

// guards are the keys that restrict: without one of them, or if it is read otherwise than it was
// meant, more could be allowed. So a mistake about such a key closes the thing that it guards: if it has a
// wrong type, is null, is there twice, is misspelt, or stands elsewhere. A key that is far from all
// names has no effect.
var guards = []struct {
	level, keys string
	closes      closing
}{
	{"", atRouter, theFile},
	{atRouter, "http validate newTools routeThreshold", theFile},
	{atHTTP, "tlsCert tlsKey rate maxBody maxBodyMemory maxHeader maxBatch readTimeout maxConnections maxSessions sessionTimeout", theFile},
	{atHTTP, "tokens", theTokens},
	{atHTTP, "oauth", theIssuers},
	{atHTTP, "clientCA certificates", theCertificates},
	{atHTTP, "publicUrl", allClients}, // a router with one does not start without tokens
	{atHTTP, "allowedHosts allowedOrigins", allHosts},
	{atRouter, "profiles", allProfiles},
	{atProfiles, DefaultProfile, defaultProfile},
	{atProfile, "servers tools readOnly ask arguments scripts", ownProfiles},
	{atProfile + ".tools", "allow deny ask", ownProfiles},
	{atRouter, "cluster", theCluster},
	{atEntry, "disabled enabled tools includeTools excludeTools disabledTools newTools trustHints inheritEnv killStrays roots validate retry maxConcurrent questionsPerMinute", theServer},
	{atTools, "allow deny rate", theServer},
}

// guardTable has the guards by their paths, and the paths by the plain spellings of their keys, and
// the keys by their levels.
var guardTable = sync.OnceValue(func() (t struct {
	closes        map[string]closing
	paths, levels map[string][]string
}) {
	t.closes, t.paths, t.levels = make(map[string]closing), make(map[string][]string), make(map[string][]string)
	for _, g := range guards {
		for key := range strings.FieldsSeq(g.keys) {
			path := keys.Below(g.level, key)
			t.closes[path], t.paths[plainKey(key)] = g.closes, append(t.paths[plainKey(key)], path)
			t.levels[g.level] = append(t.levels[g.level], key)
		}
	}
	return t
})

// plainKey is the same for spellings of a key that differ in case and hyphens only.
func plainKey(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// guardOf returns the effect of a mistake about the key at a path, "" if the key is no guard.
func guardOf(path string) closing { return guardTable().closes[path] }

// guardsNamed returns the paths of guards at other levels that have a key's name, in any spelling,
// and of keys that stand at most two levels away in objects that any mistake closes.
func guardsNamed(key, level string) (paths []string) {
	if len(key) > 2*len("questionsPerMinute") {
		return nil
	}
	for _, path := range guardTable().paths[plainKey(key)] {
		if keys.Around(path) != level {
			paths = append(paths, path)
		}
	}
	for of, n := range table() {
		if of != level && slices.Contains(n.Keys, key) && containerOf(of) != "" && keys.Steps(level, of) <= 2 {
			paths = append(paths, keys.Below(of, key))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// containerOf returns the effect of any mistake in an object of a level, "" for other levels. The
// mistake closes this object alone: a profile allows nothing, a token lets no client in.
func containerOf(level string) closing {
	for _, c := range []struct {
		level  string
		closes closing
	}{{atProfile, ownProfiles}, {atToken, theTokens}, {atIssuers, theIssuers}, {atCertificates, theCertificates}, {atCluster, theCluster}} {
		if below, ok := strings.CutPrefix(level, c.level); ok && (below == "" || below[0] == '.') {
			return c.closes
		}
	}
	return ""
}

// A reporter is a function of the decoder that reports a problem.
type reporter = func(offset int, format string, args ...any)

// guard closes the things that the keys at the paths guard, and returns the function that reports
// the mistake about them: report, if no key is a guard.
func (d *checker) guard(report reporter, paths ...string) reporter {
	here := containerOf(d.level)
	if here != "" && len(paths) > 0 {
		report = d.mistake
	}
	var all []string
	for _, path := range paths {
		closes := guardOf(path)
		if closes == "" && path != d.level && keys.Around(path) != d.level {
			closes = containerOf(path) // it is not known in which object the key was meant
		}
		if closes == ownProfiles && d.profileName == "" {
			closes = d.closedAround(path)
		}
		switch {
		case closes == theFile, closes == theServer && (d.level == atRouter || slices.Contains(roots, d.level)):
			return d.refuse
		case closes == "", closes == theServer && d.name == "", closes == ownProfiles && d.profileName != "":
			continue // the guarded object closes itself, or is not there
		}
		if !slices.Contains(all, string(closes)) {
			all = append(all, string(closes))
		}
		if !slices.Contains(d.closed, closes) {
			d.closed = append(d.closed, closes)
		}
	}
	if len(all) == 0 {
		return report
	}
	report = d.mistake
	if slices.Contains(all, string(theServer)) {
		report = d.reject
	}
	return func(offset int, format string, args ...any) {
		mistake, fix, _ := strings.Cut(message(format, args...), "; ")
		report(offset, "%s, so %s until it is corrected; %s", mistake, strings.Join(all, " and "), fix)
	}
}

// closedAround returns the effect of a mistake about a key of a profile outside of all profiles.
func (d *checker) closedAround(path string) closing {
	key := path[len(keys.Around(path))+1:]
	switch {
	case d.name != "":
		return theServer
	case strings.HasPrefix(d.level, atRouter):
		return allProfiles // it was meant for all clients
	case knownAt(atEntry, key), knownAt(atTools, key):
		return "" // other programs have it
	}
	return ownProfiles
}

// refuse reports a mistake because of which the file is not used. It must not depend on variables,
// since Expand reports no error.
func (d *checker) refuse(offset int, format string, args ...any) {
	if d.refused == nil {
		p := d.source.problem(offset, format, args...)
		d.refused = &p
	}
}

// close applies to r the effects of mistakes.
func (d *checker) close(r *Router) {
	h := &r.HTTP
	for _, closes := range d.closed {
		switch closes {
		case theTokens:
			h.Tokens = []Token{{}}
		case theIssuers:
			h.Issuers = []Issuer{{}}
		case theCertificates:
			h.Certificates = []Certificate{{}}
		case allHosts:
			h.AllowedHosts, h.AllowedOrigins = nil, nil
		case theCluster:
			r.Cluster, r.clusterWithoutURLs, r.clusterBroken = nil, nil, true
		case allProfiles, ownProfiles:
			for name := range r.Profiles {
				r.Profiles[name] = noProfile()
			}
		}
		if closes == allProfiles || closes == defaultProfile {
			if r.Profiles == nil {
				r.Profiles = make(map[string]Profile)
			}
			r.Profiles[DefaultProfile] = noProfile()
		}
	}
	if slices.Contains(d.closed, allClients) && h.isPublic() {
		h.Tokens = []Token{{}}
	}
}
