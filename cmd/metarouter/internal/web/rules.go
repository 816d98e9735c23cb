package web

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxUser = 256 // bytes of the name of a user

	// maxShownUser is how many of them are in the name of a principal: logs cut names at their
	// end, where the issuer is, and a user who could hide that could look like another issuer's.
	maxShownUser = 100
)

// An issuer is an identity provider with the rules by which its users become principals. It is
// plain data, so that [reload.Follow] can compare it.
type issuer struct {
	config.Issuer
	profiles map[string]bool // of its rules, if they exist
	claims   []string        // that entries of servers name, sorted
}

// issuersOf returns the issuers that let clients in by tokens. The list is empty without a public URL,
// since tokens must be for that URL.
func issuersOf(c config.Config) (all []issuer) {
	r := c.Router
	if r.HTTP.PublicURL == "" {
		return nil
	}
	for _, one := range r.HTTP.Issuers {
		if one.URL == "" { // a mistake in the file
			continue
		}
		i := issuer{Issuer: one, profiles: make(map[string]bool), claims: claimsOf(c.Servers)}
		for _, rule := range one.Profiles {
			if _, ok := r.Profiles[rule.Profile]; ok && rule.Profile != "" {
				i.profiles[rule.Profile] = true
			}
		}
		all = append(all, i)
	}
	return all
}

// verified returns the part of the issuer by which tokens are verified.
func (i issuer) verified() bearer.Issuer {
	return bearer.Issuer{
		URL: i.URL, Audience: i.Audience, KeysURL: i.KeysURL,
		ClientID: i.ClientID, ClientSecret: i.ClientSecret, Introspect: i.Introspect,
	}
}

// public returns the part of the issuer that clients may know, and the settings with which the page logs people in at the
// issuer.
func (i issuer) public() clientauth.Issuer {
	s := clientauth.Issuer{
		URL: i.URL, Read: i.scopesFor(reads), Call: i.scopesFor(calls), Admin: i.scopesFor(administers), Rules: i,
		ClientID: i.ClientID, ClientSecret: i.ClientSecret, Audience: i.Audience,
	}
	for _, claim := range i.Admins {
		name := claim.Name
		if claim.Value != "" {
			name += "=" + claim.Value
		}
		s.Admins = append(s.Admins, name)
	}
	return s
}

// proof returns the proof of a valid token of the issuer. The error is a [*clientauth.Refusal].
func (i issuer) proof(t *bearer.Token) (clientauth.Proof, error) {
	user, err := i.user(t)
	if err != nil {
		return clientauth.Proof{}, err
	}
	name := i.nameOf(user)
	may := i.levelOf(t.Scopes)
	if may == nothing {
		return clientauth.Proof{}, i.insufficient(calls, t, name, "the token has no scope for this router, and scopeMap translates none of its scopes to one")
	}
	values := make(map[string][]string) // of claims
	matches := func(c config.Claim) bool {
		if c.Name == "*" && c.Value == "" {
			return true
		}
		all, ok := values[c.Name]
		if !ok && c.Name != "" {
			all = t.Values(c.Name)
			values[c.Name] = all
		}
		return slices.Contains(all, c.Value)
	}
	var names []string
	missing := false // a profile of a rule that matches does not exist
	for _, rule := range i.Profiles {
		switch {
		case !matches(rule.Claim):
		case i.profiles[rule.Profile]:
			names = append(names, rule.Profile)
		default:
			missing = true
		}
	}
	ruler := slices.ContainsFunc(i.Admins, matches)
	switch {
	case len(names) > 0:
	case missing:
		return clientauth.Proof{}, forbidden(name, "no profile that the configuration gives to this user exists")
	case ruler && may < administers:
		return clientauth.Proof{}, i.insufficient(administers, t, name, "this user has no profile, and the token has no scope for administration")
	case !ruler:
		return clientauth.Proof{}, forbidden(name, "no rule of the configuration gives this user a profile")
	}
	return clientauth.Proof{
		Principal: clientauth.Principal{
			Hash: principalHash("oauth", i.URL, user), Name: name, Claims: i.claimsIn(t),
			Profile: profile.Union(names...), Reads: may == reads, Admin: ruler && may == administers,
		},
		Issuer: i.URL, Scopes: t.Scopes, MayAdminister: may == administers, Expires: t.Expires,
	}, nil
}

// claimsOf returns the claims that entries refer to, sorted.
func claimsOf(servers []config.Server) (names []string) {
	for _, s := range servers {
		for _, r := range s.References {
			if r.Kind == reference.Claim {
				names = append(names, r.Body)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxClaim bounds a claim that servers get, in bytes.
const maxClaim = 1 << 10

// claimsIn returns the claims of the token that entries refer to and that have one value, as a JSON object of texts; "" without.
func (i issuer) claimsIn(t *bearer.Token) string {
	found := make(map[string]string)
	for _, name := range i.claims {
		if all := t.Values(name); len(all) == 1 && len(all[0]) <= maxClaim {
			found[name] = all[0]
		}
	}
	if len(found) == 0 {
		return ""
	}
	return string(wire.Marshal(found))
}

// nameOf returns the name of the principal that a user is. Users with long names that begin alike
// have different ones.
func (i issuer) nameOf(user string) string {
	if len(user) > maxShownUser {
		user = strings.ToValidUTF8(user[:maxShownUser], "") + "…" + principalHash("oauth", i.URL, user)[:8]
	}
	return fmt.Sprintf("%s (%s)", user, i.URL)
}

// user returns the name of the token's user.
func (i issuer) user(t *bearer.Token) (string, error) {
	all := t.Values(i.User)
	if i.User == "sub" && json.Unmarshal(t.Claims["sub"], new(string)) != nil { // RFC 7519, section 4.1.2
		all = nil
	}
	if i.User == "" || len(all) != 1 || all[0] == "" || len(all[0]) > maxUser || plain.Line(all[0]) != all[0] || strings.TrimSpace(all[0]) != all[0] || !utf8.ValidString(all[0]) {
		return "", forbidden("", fmt.Sprintf("the claim %q must name the user: one printable text of at most %d bytes", i.User, maxUser))
	}
	return all[0], nil
}

func forbidden(name, reason string) error {
	return &clientauth.Refusal{Status: http.StatusForbidden, Reason: reason, Name: name}
}

// insufficient returns the refusal of a token that needs a scope of the level. The client is to ask
// for that next to those that it has.
func (i issuer) insufficient(needed level, t *bearer.Token, name, reason string) error {
	lacks := i.scopesFor(needed)
	if len(lacks) == 0 { // the issuer has no such scope
		return forbidden(name, reason)
	}
	return &clientauth.Refusal{Status: http.StatusForbidden, Scopes: slices.Concat(t.Scopes, lacks), Reason: reason, Name: name}
}

// A level is the rights that scopes give. Each includes the levels before it.
type level int

const (
	nothing     level = iota
	reads             // tools that only read
	calls             // all tools of the profile
	administers       // all acts of administrators
)

// scopes are the names of the levels.
var scopes = map[string]level{"mcp:read": reads, "mcp:call": calls, "mcp:admin": administers}

// levelOf returns the highest level that one of the token's scopes stands for.
func (i issuer) levelOf(has []string) level {
	highest := highestOf(has)
	for theirs, ours := range i.Scopes {
		if slices.ContainsFunc(has, func(scope string) bool { return scope != "" && (scope == theirs || scope == lastSegment(theirs)) }) {
			highest = max(highest, highestOf(ours))
		}
	}
	return highest
}

func highestOf(ours []string) level {
	highest := nothing
	for _, name := range ours {
		highest = max(highest, scopes[name])
	}
	return highest
}

// lastSegment returns the text after the last slash of a scope that is a URL with a path, or "".
// Clients ask Entra for api://ID/mcp.call, and its tokens have mcp.call.
func lastSegment(scope string) string {
	_, rest, _ := strings.Cut(scope, "://")
	at := strings.LastIndexByte(rest, '/')
	if at <= 0 {
		return ""
	}
	return rest[at+1:]
}

// scopesFor returns the scopes that a client may ask the issuer for to get the level, or the next
// higher one that the issuer has a scope for. The issuer may not know our own names if there is a
// map, so that asking for them could fail.
func (i issuer) scopesFor(needed level) (names []string) {
	theirs := i.Scopes
	if theirs == nil {
		theirs = make(map[string][]string)
		for name := range scopes {
			theirs[name] = []string{name}
		}
	}
	for l := needed; l <= administers && len(names) == 0; l++ {
		for name, ours := range theirs {
			if highestOf(ours) == l {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// principalHash returns the hash of a principal that has no token of the configuration. It is no
// SHA-256: the hashed text, which everyone can write down, would then be a token.
func principalHash(parts ...string) string {
	sum := sha512.Sum512_256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
