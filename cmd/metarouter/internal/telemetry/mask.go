package telemetry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

	// maskedValue bounds arguments or a result that are searched for secrets, since the call waits for that, and
	// maskedString the part of a string. The rest is not shown, nor the text just before it, because half a secret
	// does not look like one.
	maskedValue  = 64 << 10
	maskedString = 4 << 10
	cutMargin    = 512

	// shortestSecret is the length of the shortest secret of the configuration that is
	// hidden everywhere. A shorter one would match parts of words.
	shortestSecret = 6

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
	var all []string
	for _, entry := range c.Servers {
		all = append(all, entry.Launch().Secrets()...)
	}
	for _, token := range c.Router.HTTP.Tokens {
		all = append(all, token.Text)
	}
	if cluster := c.Router.Cluster; cluster != nil {
		all = append(all, urls.NATSSecrets(cluster.URLs)...)
	}
	for _, issuer := range c.Router.HTTP.Issuers {
		all = append(all, issuer.ClientSecret)
	}
	before := len(m.configured)
	for _, one := range all {
		if len(one) >= shortestSecret {
			m.configured[one] = true
		}
	}
	if len(m.configured) > before {
		m.update()
	}
}

// Add adds secrets that are in no configuration, such as referenced ones. The last
// 10,000 of them are hidden.
func (m *Mask) Add(secrets []string) { m.addTo(&m.added, secrets, maxSecrets) }

// AddToken adds a token of a login. Each lives a short time only: the last 1,000 of all
// logins are hidden.
func (m *Mask) AddToken(token string) { m.addTo(&m.tokens, []string{token}, maxTokens) }

// addTo adds secrets to the known ones.
func (m *Mask) addTo(known *recent, secrets []string, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	s = valid(s)
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
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:shown], ""), whole)
}

// append appends a JSON value with its secrets hidden and long strings cut. A value that is
// still too long becomes a string with its beginning, and one that is too long to be searched a string with its length.
// Invalid JSON becomes null.
func (m *Mask) append(b []byte, value []byte) []byte {
	if len(value) > maskedValue {
		return fmt.Appendf(b, `"… (%d bytes)"`, len(value))
	}
	shown := wire.Marshal(m.decoded(value, 0))
	if len(shown) > shownValue {
		return wire.AppendString(b, abridged(string(shown), shownValue/2, len(value)))
	}
	return append(b, shown...)
}

// decoded returns a JSON text as a value with its secrets hidden; nil if it is invalid.
func (m *Mask) decoded(text []byte, depth int) any {
	v, err := wire.Decode(text)
	if err != nil {
		return nil
	}
	return m.value(v, depth)
}

// value hides the secrets of a decoded JSON value.
func (m *Mask) value(v any, depth int) any {
	if depth > maxMaskDepth {
		return "…"
	}
	switch v := v.(type) {
	case string: // which may contain JSON, as results of tools often do
		if inner := strings.TrimSpace(v); inner != "" && (inner[0] == '{' || inner[0] == '[') {
			if in := m.decoded([]byte(inner), depth+1); in != nil {
				return abridged(string(wire.Marshal(in)), shownString, len(v))
			}
		}
		return m.short(v)
	case json.Number:
		if len(v) > shownString {
			return abridged(string(v), shownString, len(v))
		}
	case map[string]any:
		shown, names := make(map[string]any, len(v)), namesSecret(v)
		for key, member := range v {
			if (secret.Named(key) || names && key == "value") && hides(key, member) {
				member = hidden
			} else {
				member = m.value(member, depth+1)
			}
			shown[m.short(key)] = member
		}
		return shown
	case []any:
		option := false // the element before is an option for a secret
		for i, element := range v {
			word, is := element.(string)
			if option && is && !strings.HasPrefix(word, "-") {
				v[i] = hidden
			} else {
				v[i] = m.value(element, depth+1)
			}
			option = is && secret.IsOption(word)
		}
	}
	return v
}

// namesSecret reports whether an object is a pair of a name and a value, as forms and
// headers have, and the name is the name of a secret.
func namesSecret(object map[string]any) bool {
	return slices.ContainsFunc([]string{"name", "key", "field", "label", "type"}, func(key string) bool {
		name, _ := object[key].(string)
		return secret.Named(name)
	})
}

// hides reports whether a value under the key of a secret can be a secret. Numbers, such as
// max_tokens, null, true and false cannot.
func hides(key string, value any) bool {
	switch value.(type) {
	case nil, bool:
		return false
	case json.Number:
		return !strings.HasSuffix(strings.ToLower(key), "tokens")
	}
	return true
}

const (
	// maxSecrets is how many secrets are known that are in no configuration.
	maxSecrets = 10_000
	// maxTokens is how many tokens of logins are known.
	maxTokens = 1000
	// maxRecent bounds the secrets of one kind in bytes.
	maxRecent = 8 << 20
)

// A recent has the secrets that were added last, the oldest first.
type recent []string

// add adds a secret as the last one and reports whether it is new. The oldest ones go if
// there are more than most, or they are too long together.
func (r *recent) add(one string, most int) bool {
	if i := slices.Index(*r, one); i >= 0 {
		*r = append(slices.Delete(*r, i, i+1), one)
		return false
	}
	*r = append(*r, one)
	first, bytes := len(*r), 0
	for first > 0 && len(*r)-first < most {
		if bytes += len((*r)[first-1]); bytes > maxRecent {
			break
		}
		first--
	}
	*r = slices.Delete(*r, 0, first)
	return true
}
