package telemetry

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A mask hides what looks like a secret: values under keys that say so, texts of the
// forms that tokens and keys have, and what the configuration itself keeps in env and
// headers. What none of these three tells is not hidden. The zero value knows no
// configuration.
type mask struct {
	mu      sync.Mutex                       // guards known
	known   map[string]bool                  // secrets of the configurations so far
	replace atomic.Pointer[strings.Replacer] // hides those; nil while there are none
}

const (
	hidden = "***"

	// shownString is how much of a string is shown, and shownValue of arguments or of a
	// result; in bytes.
	shownString = 256
	shownValue  = 8 << 10

	// maskedString is how much of a string is looked at. What is behind it is not shown,
	// nor what is just before it: a secret that is cut in two looks like none.
	maskedString = 4 << 10
	cutMargin    = 512

	// shortestSecret bounds what of the configuration is hidden wherever it occurs: a
	// shorter one would be found in words.
	shortestSecret = 6

	whiteSpace = " \t\r\n" // as JSON has it

	// maxMaskDepth bounds how deep values are shown.
	maxMaskDepth = 32
)

// learn adds the secrets of a configuration. Those of earlier ones stay, since servers
// may still use them.
func (m *mask) learn(c config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = make(map[string]bool)
	}
	before := len(m.known)
	add := func(secret string) {
		if len(secret) >= shortestSecret {
			m.known[secret] = true
		}
	}
	for _, s := range c.Servers {
		for name, value := range s.Env {
			if isSecretKey(name) && name != "PWD" || tokens().MatchString(value) {
				add(value)
			}
		}
		for _, value := range s.Headers {
			add(value)
			if _, token, ok := strings.Cut(value, " "); ok { // Bearer …
				add(token)
			}
		}
	}
	for _, token := range c.Router.HTTP.Tokens {
		add(token)
	}
	if len(m.known) == before {
		return
	}
	var pairs []string
	longestFirst := func(a, b string) int { return len(b) - len(a) }
	var all []string
	for secret := range m.known {
		all = append(all, secret)
	}
	slices.SortFunc(all, longestFirst)
	for _, secret := range all {
		pairs = append(pairs, secret, hidden)
	}
	m.replace.Store(strings.NewReplacer(pairs...))
}

// secretKeys are in the names of what is to be hidden, without what separates words.
var secretKeys = []string{
	"password", "passwd", "passphrase", "passcode", "secret", "apikey", "accesskey", "privatekey", "signingkey",
	"encryptionkey", "sessionkey", "authorization", "credential", "cookie", "connectionstring", "bearer",
}

// secretEnds are at the end of such names, and secretNames are the whole of them.
var (
	secretEnds  = []string{"token", "tokens", "pwd", "auth", "sessionid", "jwt"}
	secretNames = []string{"otp", "pin", "dsn"}
)

// separators are what names are made of words with.
var separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "", "$", "")

// isSecretKey reports whether what has this name is to be hidden.
func isSecretKey(name string) bool {
	if len(name) > 200 {
		return false
	}
	name = strings.ToLower(separators.Replace(name))
	return slices.ContainsFunc(secretKeys, func(word string) bool { return strings.Contains(name, word) }) ||
		slices.ContainsFunc(secretEnds, func(word string) bool { return strings.HasSuffix(name, word) }) ||
		slices.Contains(secretNames, name)
}

// What follows is compiled for those who need it.

// tokens are texts that are secrets by their form.
var tokens = once(strings.Join([]string{
	`(?i:\bbearer\s+[a-z0-9._~+/=-]{8,})`,
	`(?i:\b(?:basic|digest|token)\s+[a-z0-9._~+/=-]{16,})`,
	`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}`,   // OpenAI, Anthropic, Stripe
	`\bgh[pousr]_[A-Za-z0-9]{16,}`,           // GitHub
	`\bgithub_pat_[A-Za-z0-9_]{16,}`,         //
	`\bgl[a-z]{2,6}-[A-Za-z0-9_-]{16,}`,      // GitLab
	`\bxox[a-z]-[A-Za-z0-9-]{8,}`,            // Slack
	`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}`, // AWS
	`\bAIza[A-Za-z0-9_-]{20,}`,               // Google
	`\bya29\.[A-Za-z0-9_-]{16,}`,             //
	`\b(?:npm|hf|dop_v1|dckr_pat|pypi|shpat|lin_api)[_-][A-Za-z0-9_-]{16,}`,
	`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}`, // JSON Web Tokens
	`(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$))`,
}, "|"))

// assigned are secrets in texts that name them: password=…, "api_key": "…".
var assigned = once(`(?i)((?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|pwd)["']?\s*[:=]\s*)("[^"]*"?|'[^']*'?|[^\s&,;"']+)`)

// userinfo is what a URL says of who asks.
var userinfo = once(`([A-Za-z][A-Za-z0-9+.-]{1,30}://)[^/\s@"'<>]+@`)

func once(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// text returns a text with its secrets hidden.
func (m *mask) text(s string) string {
	if known := m.replace.Load(); known != nil {
		s = known.Replace(s)
	}
	s = tokens().ReplaceAllString(s, hidden)
	s = assigned().ReplaceAllString(s, "${1}"+hidden)
	return userinfo().ReplaceAllString(s, "${1}"+hidden+"@")
}

// short returns the beginning of a text with its secrets hidden, and how long it is where
// that is not all.
func (m *mask) short(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	whole := len(s)
	if whole <= maskedString {
		return abridged(m.text(s), shownString, whole)
	}
	masked := m.text(s[:maskedString])
	return abridged(masked, min(shownString, max(len(masked)-cutMargin, 0)), whole)
}

// abridged returns so many bytes of a text of which the whole had more, in whole
// characters.
func abridged(s string, shown, whole int) string {
	if len(s) <= shown {
		return s
	}
	for shown > 0 && !utf8.RuneStart(s[shown]) {
		shown--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:shown], whole)
}

// append appends a JSON value with its secrets hidden and what is long cut; one that
// stays too long becomes a string with its beginning. What is no JSON becomes null.
func (m *mask) append(b []byte, value []byte) []byte {
	if !wire.Valid(value) {
		return append(b, "null"...)
	}
	begin := len(b)
	b = m.value(b, value, 0, begin+2*shownValue)
	if long := b[begin:]; len(long) > shownValue {
		cut := abridged(strings.ToValidUTF8(string(long[:shownValue]), ""), shownValue/2, len(value))
		return wire.AppendString(b[:begin], cut)
	}
	return b
}

// value appends a valid JSON value, as far as b is not longer than limit, beyond which
// nothing is shown.
func (m *mask) value(b, value []byte, depth, limit int) []byte {
	value = bytes.Trim(value, whiteSpace)
	switch {
	case len(b) > limit:
		return append(b, "null"...)
	case depth > maxMaskDepth:
		return append(b, `"…"`...)
	case value[0] == '"':
		s, _ := wire.String(value)
		return wire.AppendString(b, m.short(s))
	case value[0] == '{':
		b = append(b, '{')
		first := true
		_ = wire.Members(value, func(key string, member []byte) bool {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(wire.AppendString(b, m.short(key)), ':')
			if isSecretKey(key) && hides(key, member) {
				b = append(b, `"`+hidden+`"`...)
			} else {
				b = m.value(b, member, depth+1, limit)
			}
			return true
		})
		return append(b, '}')
	case value[0] == '[':
		b = append(b, '[')
		first := true
		_ = wire.Elements(value, func(element []byte) bool {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = m.value(b, element, depth+1, limit)
			return true
		})
		return append(b, ']')
	case len(value) > shownString: // a number
		return wire.AppendString(b, abridged(string(value), shownString, len(value)))
	}
	return append(b, value...)
}

// hides reports whether a value under the key of a secret can be one: max_tokens is a
// number, and there is nothing to see in null, true and false.
func hides(key string, value []byte) bool {
	switch bytes.Trim(value, whiteSpace)[0] {
	case 'n', 't', 'f':
		return false
	case '"', '{', '[':
		return true
	}
	return !strings.HasSuffix(strings.ToLower(key), "tokens")
}
