package resolve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// maxHidden is how many values are hidden, with earlier ones.
	maxHidden = 200
	// minHidden is the least bytes of a value that is hidden: a shorter one may be a part of
	// any text.
	minHidden = 4
	// minHiddenLine is the same for one line of a value.
	minHiddenLine = 8
	// maxTokens is how many of the tokens that were sent last are hidden.
	maxTokens = 8
	// tellTime is how often a token in use is reported as new again.
	tellTime = time.Hour
	// minInMessage is the least bytes of a token that is hidden in messages, and of a user's value in the logs of all. Those that are hard to
	// guess are longer, and neither an issuer nor a user must choose which words are replaced.
	minInMessage = 16
	// tokenText replaces a token.
	tokenText = "${token of its login}"
)

// A Server resolves the references of the entries of one server.
type Server struct {
	resolver *Resolver
	user     *User                 // whose values it resolves; nil if it is for all users
	noted    func(values []string) // called with values before they are used

	mu     sync.Mutex      // guards the fields below
	hidden []secret.Hidden // the values that were resolved, the oldest first
	tokens []string        // that were sent, the oldest first
	told   time.Time       // when HideToken last reported one as new
	hide   *strings.Replacer
	inside [][]byte // how tokens may appear in messages; replaced, never changed
}

// Server returns a Server that has resolved nothing yet: for the values of one user, or for all users if that is nil. noted is
// called with values before they are used; it may be nil.
func (r *Resolver) Server(of *User, noted func(values []string)) *Server {
	if noted == nil {
		noted = func([]string) {}
	}
	return &Server{resolver: r, user: of, noted: noted, hide: strings.NewReplacer()}
}

// A UserError is a value that a user has to set. It never contains a value.
type UserError struct{ error }

func (e *UserError) Unwrap() error { return e.error }

// A User has values of their own.
type User struct {
	Principal string // "" is the local user
	Claims    string // of the user's access token: a JSON object of texts; may be ""
}

// valueOf returns the value of a reference.
func (s *Server) valueOf(ctx context.Context, entry config.Server, ref reference.Reference) (value string, err error) {
	if !ref.Personal() {
		return s.resolver.value(ctx, entry, ref)
	}
	if value, err = s.personal(ctx, ref); err == nil && !httpguts.ValidHeaderFieldValue(value) {
		err = fmt.Errorf("your value of %s has characters that no header can have; set another one", ref.Text)
	}
	if err != nil {
		return "", &UserError{err}
	}
	return value, nil
}

// personal returns the value of the user for a reference.
func (s *Server) personal(ctx context.Context, ref reference.Reference) (string, error) {
	if ref.Kind == reference.Claim {
		value, ok := wire.String(wire.Member(json.RawMessage(s.user.Claims), ref.Body))
		if !ok || value == "" {
			return "", fmt.Errorf("your access token has no claim %q with one text, which this server needs; ask the administrator of your identity provider", ref.Body)
		}
		return value, nil
	}
	name := vault.UserValue(s.user.Principal, ref.Body)
	value, err := s.resolver.value(ctx, config.Server{}, reference.Reference{Text: ref.Text, Kind: reference.Keyring, Body: name})
	if _, missing := errors.AsType[*vault.MissingError](err); !missing && (err != nil || value != "") { // an empty one would make room for a login
		return value, err
	}
	if s.user.Principal == "" {
		return "", fmt.Errorf("your value %s is not set; run: %s --user", ref.Body, vault.SetCommand(ref.Body))
	}
	return "", fmt.Errorf("your value %s is not set; open /account at the address of this router in a browser, log in, and set it there", ref.Body)
}

// Resolve returns the entry with the values of its references in args, env, url, headers
// and oauth. The result must not be shown or stored. The error is an [*Error] or a [*UserError]. Headers
// with a user's value are left out if s is for all users.
func (s *Server) Resolve(ctx context.Context, entry config.Server) (config.Server, error) {
	if len(entry.References) == 0 {
		return entry, nil
	}
	var resolved, own []secret.Hidden // own are the user's
	var texts []string
	var helped map[string]string // headers
	for _, ref := range entry.References {
		if ref.Kind == reference.Headers {
			headers, err := s.resolver.headers(ctx, entry, ref)
			if err != nil {
				return config.Server{}, err
			}
			helped = headers
			for name, value := range headers {
				resolved = append(resolved, secret.Hidden{Value: value, Shown: "the value of the header " + name})
			}
			continue
		}
		if ref.Personal() && s.user == nil {
			entry.Headers = maps.Clone(entry.Headers)
			maps.DeleteFunc(entry.Headers, func(_, text string) bool { return strings.Contains(text, ref.Text) })
			continue
		}
		value, err := s.valueOf(ctx, entry, ref)
		if err != nil {
			return config.Server{}, err
		}
		switch hidden := (secret.Hidden{Value: value, Shown: ref.Text}); ref.Kind {
		case reference.Claim: // no secret, and it may be the user's name in everyone's logs
		case reference.User:
			own = append(own, hidden)
		default:
			resolved = append(resolved, hidden)
		}
		texts = append(texts, ref.Text, value)
	}
	s.noted(s.remember(resolved)) // a user must not choose the words that everyone's logs hide:
	s.noted(slices.DeleteFunc(s.remember(own), func(form string) bool { return len(form) < minInMessage }))
	put := strings.NewReplacer(texts...).Replace
	entry.Env, entry.Headers = replaced(entry.Env, put), replaced(entry.Headers, put)
	if len(helped) > 0 && entry.Headers == nil {
		entry.Headers = make(map[string]string)
	}
	for name, value := range helped { // they win, as in Claude Code
		maps.DeleteFunc(entry.Headers, func(other, _ string) bool { return strings.EqualFold(other, name) })
		entry.Headers[name] = value
	}
	entry.Args = slices.Clone(entry.Args)
	for i, arg := range entry.Args {
		entry.Args[i] = put(arg)
	}
	entry.URL = put(entry.URL)
	if entry.OAuth != nil {
		o := *entry.OAuth
		o.ClientSecret, o.PrivateKey = put(o.ClientSecret), put(o.PrivateKey)
		entry.OAuth = &o
	}
	return entry, nil
}

func replaced(all map[string]string, put func(string) string) map[string]string {
	all = maps.Clone(all)
	for name, value := range all {
		all[name] = put(value)
	}
	return all
}

// Forget has the commands of the entry run again when their values are needed next: a value
// was refused, or a person asks for a restart.
func (s *Server) Forget(entry config.Server) {
	s.resolver.mu.Lock()
	defer s.resolver.mu.Unlock()
	for _, ref := range entry.References {
		delete(s.resolver.printed, keyOf(entry, ref))
	}
}

// Hide replaces the values that were resolved so far by the texts of their references.
func (s *Server) Hide(text string) string {
	s.mu.Lock()
	hide := s.hide
	s.mu.Unlock()
	return hide.Replace(text)
}

// HideToken has a token of a login hidden from now on. It reports whether the token is new, and
// about once an hour that one still in use is: others hide the last tokens of all servers only.
func (s *Server) HideToken(token string) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.tokens, token) {
		s.tokens = append(slices.Clone(s.tokens[max(0, len(s.tokens)-maxTokens+1):]), token)
		s.update()
	} else if time.Since(s.told) < tellTime {
		return false
	}
	s.told = time.Now()
	return true
}

// HideTokens returns a message of the server without the tokens of its login, which the server may
// have made of a request's headers. It leaves the message itself as it is.
func (s *Server) HideTokens(message []byte) []byte {
	s.mu.Lock()
	inside := s.inside
	s.mu.Unlock()
	for _, token := range inside {
		if bytes.Contains(message, token) {
			message = bytes.ReplaceAll(message, token, []byte(tokenText))
		}
	}
	return message
}

// remember has the values hidden from now on. It returns the forms of those that are new.
func (s *Server) remember(resolved []secret.Hidden) (added []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range resolved {
		for _, form := range forms(p.Value) {
			if known := (secret.Hidden{Value: form, Shown: p.Shown}); !slices.Contains(s.hidden, known) {
				s.hidden, added = append(s.hidden, known), append(added, form)
			}
		}
	}
	if len(added) == 0 {
		return nil
	}
	s.hidden = slices.Clone(s.hidden[max(0, len(s.hidden)-maxHidden):])
	s.update()
	return added
}

// update makes the replacer of the values; s.mu is held.
func (s *Server) update() {
	all := slices.Clone(s.hidden)
	s.inside = nil
	for _, token := range s.tokens {
		for _, form := range forms(token) {
			all = append(all, secret.Hidden{Value: form, Shown: tokenText})
			if len(token) >= minInMessage {
				s.inside = append(s.inside, []byte(form))
			}
		}
	}
	s.hide = secret.Replacer(all)
}

// forms returns how a value may appear in a text: as it is, in a JSON string, in a URL, and
// line by line.
func forms(value string) (all []string) {
	quoted, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings always marshal
	}
	candidates := []string{value, string(quoted[1 : len(quoted)-1]), url.QueryEscape(value), url.PathEscape(value)}
	for _, form := range candidates {
		if len(form) >= minHidden && !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	if !strings.Contains(value, "\n") {
		return all
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= minHiddenLine {
			all = append(all, line)
		}
	}
	return all
}
