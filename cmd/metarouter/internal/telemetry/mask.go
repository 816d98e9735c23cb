package telemetry

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Mask hides secrets in JSON values: everything that package secret takes for one, and
// the secrets of the configuration wherever they occur. The zero value knows no
// configuration.
type Mask struct {
	mu         sync.Mutex                       // guards the fields below, but replace
	configured map[string]bool                  // secrets of the configurations so far
	added      recent                           // secrets that configurations refer to; at most maxSecrets
	tokens     recent                           // of logins; at most maxTokens
	replace    atomic.Pointer[strings.Replacer] // hides all of these; nil before the first secret
}

const (
	hidden = "***"

	// shownString bounds the shown part of a string, and shownValue the shown part of
	// arguments or a result, in bytes.
	shownString = 256
	shownValue  = 8 << 10

	// maskedString bounds the part of a string that is searched for secrets. The rest is
	// not shown, nor the text just before it, because half a secret does not look like
	// one.
	maskedString = 4 << 10
	cutMargin    = 512

	// shortestSecret is the length of the shortest secret of the configuration that is
	// hidden everywhere. A shorter one would match parts of words.
	shortestSecret = 6

	whiteSpace = " \t\r\n" // of JSON

	// maxMaskDepth bounds how deep values are shown.
	maxMaskDepth = 32
)

// Learn adds the secrets of a configuration. Secrets of earlier ones stay, since servers
// may still use them.
func (m *Mask) Learn(c config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.configured == nil {
		m.configured = make(map[string]bool)
	}
	before := len(m.configured)
	learn := func(one string) {
		if len(one) >= shortestSecret {
			m.configured[one] = true
		}
	}
	for _, entry := range c.Servers {
		for _, one := range entry.Launch().Secrets() {
			learn(one)
		}
	}
	for _, token := range c.Router.HTTP.Tokens {
		learn(token.Text)
	}
	if cluster := c.Router.Cluster; cluster != nil {
		for _, one := range urls.NATSSecrets(cluster.URLs) {
			learn(one)
		}
	}
	for _, issuer := range c.Router.HTTP.Issuers {
		learn(issuer.ClientSecret)
	}
	if len(m.configured) > before {
		m.update()
	}
}

// Add adds secrets that are in no configuration, such as referenced ones. The last
// 10,000 of them are hidden.
func (m *Mask) Add(secrets []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addTo(&m.added, secrets, maxSecrets)
}

// AddToken adds a token of a login. Each lives a short time only: the last 1,000 of all
// logins are hidden.
func (m *Mask) AddToken(token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addTo(&m.tokens, []string{token}, maxTokens)
}

// addTo adds secrets to the known ones; m.mu is held.
func (m *Mask) addTo(known *recent, secrets []string, most int) {
	changed := false
	for _, one := range secrets {
		if len(one) >= shortestSecret && known.add(one, most) {
			changed = true
		}
	}
	if changed {
		m.update()
	}
}

// update makes a replacer of all secrets; m.mu is held.
func (m *Mask) update() {
	all := slices.AppendSeq(make([]string, 0, len(m.configured)+len(m.added)+len(m.tokens)), maps.Keys(m.configured))
	all = append(append(all, m.added...), m.tokens...)
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // the longest first
	pairs := make([]string, 0, 2*len(all))
	for _, one := range all {
		pairs = append(pairs, one, hidden)
	}
	m.replace.Store(strings.NewReplacer(pairs...))
}

// Text returns a text with its secrets hidden.
func (m *Mask) Text(s string) string {
	if known := m.replace.Load(); known != nil {
		s = known.Replace(s)
	}
	return secret.Hide(s, hidden)
}

// short returns the beginning of a text with its secrets hidden, and the length of the text
// if that is not all.
func (m *Mask) short(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	whole := len(s)
	if whole <= maskedString {
		return abridged(m.Text(s), shownString, whole)
	}
	masked := m.Text(s[:maskedString])
	return abridged(masked, min(shownString, max(len(masked)-cutMargin, 0)), whole)
}

// abridged returns the first bytes of a text, in whole characters, and notes the length of
// the whole text.
func abridged(s string, shown, whole int) string {
	if len(s) <= shown {
		return s
	}
	for shown > 0 && !utf8.RuneStart(s[shown]) {
		shown--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:shown], whole)
}

// append appends a JSON value with its secrets hidden and long strings cut. A value that is
// still too long becomes a string with its beginning. Invalid JSON becomes null.
func (m *Mask) append(b []byte, value []byte) []byte {
	if !wire.Valid(value) {
		return append(b, "null"...)
	}
	begin := len(b)
	v := masking{m, begin + 2*shownValue, lookedAt}
	b = v.value(b, value, 0)
	if long := b[begin:]; len(long) > shownValue {
		cut := abridged(strings.ToValidUTF8(string(long[:shownValue]), ""), shownValue/2, len(value))
		return wire.AppendString(b[:begin], cut)
	}
	return b
}

// A masking has the remaining bounds for one value.
type masking struct {
	*Mask
	limit int // the longest output; the rest is left out
	left  int // bytes of strings that may still be searched; the rest is not shown
}

// lookedAt bounds the bytes of a value's strings that are searched, since the call waits for
// it.
const lookedAt = 64 << 10

// value appends a valid JSON value.
func (v *masking) value(b, value []byte, depth int) []byte {
	value = bytes.Trim(value, whiteSpace)
	switch {
	case depth > maxMaskDepth:
		return append(b, `"…"`...)
	case value[0] == '"':
		s, _ := wire.String(value)
		return wire.AppendString(b, v.string(s, depth))
	case value[0] == '{':
		names := namesSecret(value)
		b = append(b, '{')
		begin := len(b)
		_ = wire.Members(value, func(key string, member []byte) bool {
			if len(b) > begin {
				b = append(b, ',')
			}
			b = append(wire.AppendString(b, v.short(key)), ':')
			if (secret.Named(key) || names && key == "value") && hides(key, member) {
				b = append(b, `"`+hidden+`"`...)
			} else {
				b = v.value(b, member, depth+1)
			}
			return len(b) <= v.limit
		})
		return append(b, '}')
	case value[0] == '[':
		b = append(b, '[')
		begin, option := len(b), false // the element before is an option for a secret
		_ = wire.Elements(value, func(element []byte) bool {
			if len(b) > begin {
				b = append(b, ',')
			}
			word, is := wire.String(element)
			if option && is && !strings.HasPrefix(word, "-") {
				b = append(b, `"`+hidden+`"`...)
			} else {
				b = v.value(b, element, depth+1)
			}
			option = is && secret.IsOption(word)
			return len(b) <= v.limit
		})
		return append(b, ']')
	case len(value) > shownString: // a number
		return wire.AppendString(b, abridged(string(value), shownString, len(value)))
	}
	return append(b, value...)
}

// string returns the shown part of a string. The string may contain JSON, as results of
// tools often do.
func (v *masking) string(s string, depth int) string {
	if v.left < 0 {
		return "…"
	}
	if inner := strings.Trim(s, whiteSpace); inner != "" && (inner[0] == '{' || inner[0] == '[') && wire.Valid([]byte(inner)) {
		within := masking{v.Mask, maskedString, v.left}
		masked := within.value(nil, []byte(inner), depth+1)
		v.left = within.left
		return abridged(string(masked), shownString, len(s))
	}
	v.left -= min(len(s), maskedString)
	return v.short(s)
}

// namesSecret reports whether an object is a pair of a name and a value, as forms and
// headers have, and the name is the name of a secret.
func namesSecret(object []byte) (is bool) {
	_ = wire.Members(object, func(key string, value []byte) bool {
		switch key {
		case "name", "key", "field", "label", "type":
			name, _ := wire.String(value)
			is = secret.Named(name)
		}
		return !is
	})
	return is
}

// hides reports whether a value under the key of a secret can be a secret. Numbers, such as
// max_tokens, null, true and false cannot.
func hides(key string, value []byte) bool {
	switch bytes.Trim(value, whiteSpace)[0] {
	case 'n', 't', 'f':
		return false
	case '"', '{', '[':
		return true
	}
	return !strings.HasSuffix(strings.ToLower(key), "tokens")
}
