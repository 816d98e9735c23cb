package approval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Request is a call that a person is asked about.
type Request struct {
	Principal string // who calls; "" is a client that proved no identity
	Called    string // the principal for a person; "" is as Principal
	Profile   string // the profiles that limit the call, joined by "+"; may be ""
	Client    string // the name that the client gives itself; may be ""

	Server     string
	Tool       string          // its name at the server
	Definition json.RawMessage // of the tool
	Arguments  json.RawMessage // an object, as the server gets it
	Others     json.RawMessage // an object with the other parameters that the server gets; nil without any

	Script string     // the run of the script that calls it; "" without one
	Page   PageWaiter // has the call wait for an answer on the page; nil if the client can be asked, or is to send the call again

	Reason string // why a person is asked, such as `profile "work" asks before "create_*"`
	Policy string // identifies the rules: requests under other rules are not the same
}

// A Key identifies a request: equal keys are the same call.
type Key [sha256.Size]byte

// Key hashes the caller, the tool with its definition, the parameters that the server gets, and the
// rules. White space and the order of members do not matter in the parameters.
func (r *Request) Key() (k Key) {
	all := sha256.New()
	for _, part := range [...]string{
		r.Principal, r.Profile, r.Server, r.Tool, string(r.Definition), string(canonical(r.Arguments)), string(canonical(r.Others)), r.Policy,
	} {
		fmt.Fprintf(all, "%d %s", len(part), part)
	}
	all.Sum(k[:0])
	return k
}

// scriptKey identifies the tool, the script and the rules, with any parameters.
func (r *Request) scriptKey() Key {
	any := *r
	any.Arguments, any.Others, any.Principal = nil, nil, r.Principal+"\x00"+r.Script
	return any.Key()
}

// A PageWaiter is the client of a call that can't ask its person, and that waits for an answer on the page.
type PageWaiter interface {
	session.Client

	// AwaitPage is called when a call begins to wait, and answered when it waits no more.
	AwaitPage(ctx context.Context) (answered func())
}

const (
	maxQuestion = 4 << 10  // bytes of the arguments in a question
	maxListed   = 16 << 10 // bytes of the arguments on the page
	maxValue    = 200      // bytes of each string, or of each value if there are many, if not all arguments can be shown
	maxName     = 200      // bytes of a name
)

// Question returns the text for the client's person: the tool, its server and the arguments, and why
// the person is asked. Hidden characters are escaped. It is bounded, and
// says so if it does not show all.
func (r *Request) Question() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Run %s? (%s)\n", r.Name(), r.Reason)
	b.WriteString("Arguments" + shown(r.Arguments, maxQuestion))
	if r.Others != nil {
		b.WriteString("\nOther parameters" + shown(r.Others, maxQuestion))
	}
	return b.String()
}

// Name names the tool and its server, in one line.
func (r *Request) Name() string {
	return fmt.Sprintf("the tool %s of the server %s", name(r.Tool), name(r.Server))
}

// principal returns who calls, for a person.
func (r *Request) principal() string { return cmp.Or(r.Called, r.Principal) }

// fields returns the fields of a log line about the request: neither arguments nor results.
func (r *Request) fields() []zap.Field {
	return []zap.Field{zap.String("principal", r.principal()), zap.String("profile", r.Profile), zap.String("server", r.Server), zap.String("tool", r.Tool)}
}

// shown returns the object as indented text below a colon. It names the parts that
// it leaves out before the text, with the hash of the whole.
func shown(object json.RawMessage, limit int) string {
	text, whole := indented(object, limit)
	if whole {
		return ":\n" + text
	}
	return fmt.Sprintf(" (only a part is shown: they have %d bytes, SHA-256 %s):\n%s", len(object), hashOf(object), text)
}

// hashOf returns the hash of an object in its one form, in hexadecimal.
func hashOf(object json.RawMessage) string {
	return fmt.Sprintf("%x", sha256.Sum256(canonical(object)))
}

// canonical returns a JSON value without white space, and with the members of each object in the order of their keys. A value that
// is too large for that stays as it is, and so does one with escapes of surrogates, or that is no UTF-8: servers may differ in how
// they read them.
func canonical(value []byte) []byte {
	v, err := jsonc.Parse(value)
	if err != nil || !utf8.Valid(value) || bytes.Contains(bytes.ToLower(value), []byte(`\ud`)) {
		return value
	}
	return jsonc.AppendCanonical(nil, v.Value)
}

// name returns a name of others for one line.
func name(s string) string { return prose.Cut(plain.Line(s), maxName) }

// indented returns an object as text of about limit bytes, with a line for each member and hidden characters escaped.
// If all of it is longer, each value is cut that is longer than its share, and then the end is left out.
func indented(object json.RawMessage, limit int) (text string, whole bool) {
	longest := limit
	if whole = len(object) <= limit; !whole {
		longest = max(maxValue, limit/max(1, len(wire.Keys(object))))
	}
	if !wire.Valid(object) || !wire.IsObject(object) {
		return string(plain.JSON([]byte(cut(object, longest)))), whole
	}
	var lines []string
	size := 0
	for key, value := range wire.All(object) {
		if size >= limit {
			lines, whole = append(lines, "\n  …"), false
			break
		}
		line := "\n  " + cut(wire.AppendString(nil, key), longest) + ": " + cut(value, longest)
		lines, size = append(lines, line), size+len(line)
	}
	return string(plain.JSON([]byte("{" + strings.Join(lines, ",") + "\n}"))), whole
}

// texts matches the strings of a JSON value.
var texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// cut returns a JSON value in one line, of at most so many bytes. Its long strings are cut first, so that they do not hide the others.
func cut(value []byte, most int) string {
	line := plain.Line(string(value))
	var compact bytes.Buffer
	if json.Compact(&compact, value) == nil {
		line = compact.String()
	}
	if len(line) > most {
		line = texts.ReplaceAllStringFunc(line, func(s string) string { return shortened(s, maxValue, `"`) })
	}
	return shortened(line, most, "")
}

// shortened returns the beginning of a text, with an end and how much is left out, if it is longer than most bytes.
func shortened(s string, most int, end string) string {
	if more := len(s) - most; more > 0 {
		return fmt.Sprintf("%s%s (%d more bytes)", prose.Cut(s, most), end, more)
	}
	return s
}
