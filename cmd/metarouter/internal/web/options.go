package web

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/server"
)

// optionsOf returns the options that an edit of the configuration may change.
func (l *Listener) optionsOf(c config.Config) *server.HTTPOptions {
	h := c.Router.HTTP
	l.connections.limit(mostConnections(h))
	known := l.authenticator(c)
	issuers := []clientauth.Issuer{}
	for _, i := range known.issuers {
		issuers = append(issuers, i.public())
	}
	return &server.HTTPOptions{
		Bound:        l.bound(),
		AllowedHosts: slices.Concat(h.AllowedHosts, l.flags.Hosts, []string{l.host}), AllowedOrigins: h.AllowedOrigins,
		Tokens: l.principals(c.Router), MaxBody: h.MaxBody, MaxBodyMemory: h.MaxBodyMemory,
		Rate: h.Rate.PerSecond, Burst: h.Rate.Burst, Rates: ratesOf(h), SessionTimeout: h.SessionTimeout, MaxSessions: h.MaxSessions,
		PublicURL: h.PublicURL, Issuers: issuers, Authenticator: known,
	}
}

// authenticator returns the authenticator for clients without a token of the configuration.
func (l *Listener) authenticator(c config.Config) *authenticator {
	a := &authenticator{issuers: issuersOf(c), verifier: l.verifier, log: l.log.Named("http"), warn: l.warn}
	for _, i := range a.issuers {
		a.accepted = append(a.accepted, i.verified())
	}
	if l.asksFor(c.Router.HTTP) {
		a.subjects = subjectsOf(c.Router)
	}
	return a
}

// asksFor reports whether certificates of clients count: TLS asks for certificates of the authorities
// that the configuration names now.
func (l *Listener) asksFor(h config.HTTP) bool {
	return l.clients != nil && l.clients.files[0] == h.ClientCA
}

// ratesOf returns the rates of the tokens and certificates that have one of their own, by the hash
// of their principals.
func ratesOf(h config.HTTP) map[string]rate.Limit {
	rates := make(map[string]rate.Limit)
	for _, t := range h.Tokens {
		if t.Hash != "" && t.Rate != (config.Rate{}) {
			rates[t.Hash] = t.Rate
		}
	}
	for _, c := range h.Certificates {
		if c.Rate != (config.Rate{}) {
			rates[hashOf(c)] = c.Rate
		}
	}
	return rates
}

// allTokens returns the tokens of the configuration, the environment and the file, each once. A
// client must send one of them. The objects of the configuration come first, so that they
// decide about a token that is elsewhere too.
func allTokens(c config.HTTP, file config.Token) []config.Token {
	all := slices.Clone(c.Tokens)
	if token := secret.Token(); token != "" {
		all = append(all, plainToken(token))
	}
	if file.Hash != "" {
		all = append(all, file)
	}
	objects := slices.DeleteFunc(slices.Clone(all), func(t config.Token) bool { return t.Plain })
	seen := make(map[string]bool)
	return slices.DeleteFunc(append(objects, all...), func(t config.Token) bool {
		again := seen[t.Hash]
		seen[t.Hash] = true
		return again
	})
}

// plainToken returns the token of an administrator without name and profile. A text that begins with
// "sha256:" is the token's hash.
func plainToken(text string) config.Token {
	hash, token, _ := secret.ParseToken(text)
	return config.Token{Hash: hash, Text: token, Role: "admin", Plain: true}
}

// principals returns the principals that requests may come from. A token or a certificate that can't be used lets no
// client in: the list is never empty because of a mistake, or if clients prove who they are in
// another way, since without tokens every client is let in.
func (l *Listener) principals(r config.Router) []clientauth.Principal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if file, err := tokenOf(l.flags.TokenFile); err != nil {
		l.log.Warn("the token of --token-file stays as it was", zap.Error(err))
	} else {
		l.file = file
	}
	local := l.address.IP.IsLoopback()
	all := []clientauth.Principal{}
	for _, t := range allTokens(r.HTTP, l.file) {
		one := clientauth.Principal{}
		switch _, exists := r.Profiles[t.Profile]; {
		case t.Hash == "" || t.Profile != "" && !exists: // the problems of the configuration say so
		case secret.IsShort(t.Text) && !local:
			l.log.Warn("a token lets no client in", zap.String("name", nameOf(t)), zap.Error(fmt.Errorf("other machines can reach this router, so %w", errShort)))
		default:
			one = clientauth.Principal{Hash: t.Hash, Name: nameOf(t), Profile: t.Profile, Admin: t.Role == "admin"}
		}
		all = append(all, one)
	}
	for i, s := range subjectsOf(r) { // of client certificates
		c, one := r.HTTP.Certificates[i], clientauth.Principal{}
		if s.hash != "" && l.asksFor(r.HTTP) {
			one = clientauth.Principal{Hash: s.hash, Name: c.Name, Profile: c.Profile, Admin: c.Role == "admin"}
		}
		all = append(all, one)
	}
	if len(all) == 0 && (len(r.HTTP.Issuers) > 0 || r.HTTP.ClientCA != "") {
		all = append(all, clientauth.Principal{})
	}
	if len(all) == 0 && (!local || urls.LeadsElsewhere(r.HTTP.PublicURL)) {
		l.log.Warn("no client is let in: other machines can reach this router, by its address or http.publicUrl, so its clients must send a token, and the configuration has none")
		all = append(all, clientauth.Principal{})
	}
	return all
}

// nameOf returns the name of the clients with the token in logs.
func nameOf(t config.Token) string { return cmp.Or(t.Name, t.Hash[:min(8, len(t.Hash))]) }
