package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
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
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		all.Write(size[:])
		all.Write([]byte(part))
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
	maxString   = 200      // bytes of each string, if not all arguments can be shown
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
	sum := hashOf(object)
	return fmt.Sprintf(" (only a part is shown: they have %d bytes, SHA-256 %s):\n%s", len(object), hex.EncodeToString(sum[:]), text)
}

// hashOf returns the hash of an object in its one form.
func hashOf(object json.RawMessage) [sha256.Size]byte { return sha256.Sum256(canonical(object)) }

// name returns a name of others for one line.
func name(s string) string { return prose.Cut(plain.Line(s), maxName) }

// indented returns a JSON value as text of about limit bytes, with hidden characters escaped.
// If all of it is longer, its strings are shortened, and then its end is left out.
func indented(value json.RawMessage, limit int) (text string, whole bool) {
	text, whole = indent(value, limit, limit)
	if !whole {
		text, _ = indent(value, limit, maxString)
	}
	return string(plain.JSON([]byte(text))), whole
}

// maxIndent is the depth from which on lines begin at the same column, so that deep values do
// not consist of spaces.
const maxIndent = 20

// indent writes a JSON value with a line for each member and element. Its strings end after
// longest bytes, and the text after limit bytes; whole reports whether all are complete.
func indent(value []byte, limit, longest int) (text string, whole bool) {
	var b strings.Builder
	depth := 0
	line := func() { b.WriteString("\n" + strings.Repeat("  ", min(depth, maxIndent))) }
	whole = true
	for i := 0; i < len(value); i++ {
		if b.Len() >= limit {
			return b.String() + "…", false
		}
		switch c := value[i]; c {
		case ' ', '\t', '\r', '\n':
		case '"':
			end := stringEnd(value, i)
			if s := value[i:end]; len(s) <= longest {
				b.Write(s)
			} else {
				whole = false
				kept := begin(s, longest)
				fmt.Fprintf(&b, `%s…" (%d more bytes)`, kept, len(s)-1-len(kept))
			}
			i = end - 1
		case '{', '[':
			b.WriteByte(c)
			if next := skipSpace(value, i+1); next < len(value) && (value[next] == '}' || value[next] == ']') {
				b.WriteByte(value[next])
				i = next
				break
			}
			depth++
			line()
		case '}', ']':
			depth--
			line()
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			line()
		case ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), whole
}

// begin returns about n bytes from the beginning of a JSON string, without a part of an
// escape or of a character at the end.
func begin(s []byte, n int) []byte {
	s = s[:n]
	if i := strings.LastIndexByte(string(s), '\\'); i > n-6 {
		s = s[:i]
	}
	return s[:len(s)-plain.Unfinished(s)]
}

// stringEnd returns the end of the JSON string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(" \t\r\n", b[i]) >= 0 {
		i++
	}
	return i
}
