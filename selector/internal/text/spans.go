package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// Bounds of literals that may hold spaces, in bytes.
const (
	maxQuoted    = 8 << 10
	maxInSingles = 200 // between ', which is an apostrophe as well
)

// span takes a literal that may hold spaces out of the task: a quoted text, code or a
// query. It returns its size, or 0 without one.
func (r *reader) span(i int) int {
	rest := r.text[i:]
	switch c, size := utf8.DecodeRuneInString(rest); c {
	case '`':
		if strings.HasPrefix(rest, "```") {
			size = 3
		}
		return r.quoted(rest, size, rest[:size], maxQuoted)
	case '"', '\'':
		most := maxQuoted
		if c == '\'' {
			most = maxInSingles
		}
		return r.quoted(rest, size, rest[:size], most)
	case '“', '„':
		if closing := strings.IndexAny(r.ahead(rest[size:], maxQuoted), "“”"); closing >= 0 {
			_, width := utf8.DecodeRuneInString(rest[size+closing:])
			return r.quoted(rest, size, rest[size+closing:size+closing+width], maxQuoted)
		}
		r.budget -= min(len(rest), maxQuoted)
	case '‘', '«', '「', '『':
		return r.quoted(rest, size, map[rune]string{'‘': "’", '«': "»", '「': "」", '『': "』"}[c], maxQuoted)
	case '{', '[':
		return r.object(rest)
	case 'S', 's', 'I', 'U', 'D', 'C', 'A', 'W':
		return r.query(rest)
	}
	return 0
}

// ahead returns the part of a text that may be read ahead, up to most bytes, and counts it.
func (r *reader) ahead(rest string, most int) string {
	return rest[:min(len(rest), most, max(0, r.budget))]
}

// quoted takes a text in quotation marks, the first of so many bytes.
func (r *reader) quoted(rest string, size int, closing string, most int) int {
	inner := r.ahead(rest[size:], most)
	n := 0
	for {
		k := strings.Index(inner[n:], closing)
		if k < 0 {
			r.budget -= len(inner)
			return 0
		}
		n += k
		c, _ := utf8.DecodeRuneInString(rest[size+n+len(closing):])
		if closing != "'" && closing != `"` || !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			break
		}
		n += len(closing)
	}
	r.budget -= n
	inner = inner[:n]
	content := strings.TrimSpace(inner)
	if content == "" || closing == "'" && unicode.IsSpace(rune(inner[0])) {
		return 0
	}
	r.takeQuoted(content, closing[0] == '`')
	r.before = ""
	return size + n + len(closing)
}

// takeQuoted takes the text between quotation marks. A single word may be a tool's;
// a path, a URL or the like is one here, too.
func (r *reader) takeQuoted(content string, isCode bool) {
	v := value{kind: analysis.QuotedType}
	if isCode {
		v.kind = analysis.CodeType
	}
	switch single := !strings.ContainsFunc(content, unicode.IsSpace); {
	case isQuery(content):
		v = value{kind: analysis.QueryType, optional: "sql"}
	case single:
		if known, ok := r.classify(content); ok {
			v = known
		} else {
			v.optional = content
		}
	case isPathStart(content):
		v = value{kind: analysis.PathType, extension: extension(content)}
	}
	r.take(content, v)
}

func isPathStart(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~/") || strings.HasPrefix(s, "./") || len(s) > 2 && s[1:3] == `:\`
}

// object takes JSON.
func (r *reader) object(rest string) int {
	depth, quotes := 0, 0
	inner := r.ahead(rest, maxQuoted)
	for n := range len(inner) {
		switch inner[n] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			quotes++
		}
		if depth == 0 {
			r.budget -= n
			if quotes < 2 {
				return 0
			}
			r.take(rest[:n+1], value{kind: analysis.CodeType})
			return n + 1
		}
	}
	r.budget -= len(inner)
	return 0
}

// commandLine returns the command line with which rest begins, up to the end of the sentence, if
// a known program stands there after a word such as "run"; else "".
func commandLine(before, program, rest string) string {
	if !isA("PROGRAMS", program) || !slices.Contains([]string{"run", "running", "execute", "exec"}, before) {
		return ""
	}
	for _, end := range []string{"\n", ". ", "? ", "; ", ", ", " and ", " then ", " in "} {
		rest, _, _ = strings.Cut(rest, end)
	}
	return strings.TrimRight(rest, " .?!")
}

// query takes SQL, up to the end of the statement or of the sentence.
func (r *reader) query(rest string) int {
	rest = r.ahead(rest, maxQuoted)
	if !isQuery(rest) {
		return 0
	}
	for _, end := range []string{";", "\n\n", ". ", "? "} {
		if n := strings.Index(rest, end); n >= 0 {
			rest = rest[:n]
		}
	}
	r.budget -= len(rest)
	rest = strings.TrimRight(rest, " .?!")
	r.take(rest, value{kind: analysis.QueryType, optional: "sql"})
	return len(rest)
}

// isQuery reports whether a text begins with SQL. In lower case most of its words are
// words of a sentence as well.
func isQuery(s string) bool {
	const near = 500 // bytes
	verb, rest, _ := strings.Cut(s[:min(len(s), near)], " ")
	switch verb {
	case "SELECT":
		return strings.Contains(rest, "FROM ") || strings.HasPrefix(rest, "*")
	case "select", "Select":
		return strings.HasPrefix(rest, "* from") || strings.HasPrefix(rest, "count(")
	case "INSERT":
		return strings.HasPrefix(rest, "INTO ")
	case "UPDATE":
		return strings.Contains(rest, " SET ")
	case "DELETE":
		return strings.HasPrefix(rest, "FROM ")
	case "CREATE", "ALTER", "DROP":
		object, _, _ := strings.Cut(rest, " ")
		return object == "TABLE" || object == "INDEX" || object == "VIEW" || object == "DATABASE"
	case "WITH":
		return strings.Contains(rest, " AS (")
	}
	return false
}
