package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// A reader takes the literals out of a task. It reads each byte once, but for bytes that it
// looks ahead, which its budget bounds.
type reader struct {
	text    string
	names   bool // capitalised words may be names
	selects bool // the task has words that come with CSS selectors
	budget  int  // bytes that may still be read ahead

	plain    strings.Builder // the task without its literals, but with the words that they leave
	optional strings.Builder // the optional words of plain
	found    []Literal
	spots    []spot

	before  string // the word before, in lower case
	begins  bool   // a sentence begins
	nameEnd int    // where the last name ended
}

// A spot is where in the plain text of a task a literal stood.
type spot struct {
	at   int
	kind analysis.Type
}

// readLiterals returns a reader at the end of the task. names says whether capitalised words
// may be names, which they are not in German.
func readLiterals(text string, names bool) *reader {
	r := &reader{text: text, begins: true, budget: 16*len(text) + 1<<12}
	r.survey(names)
	r.plain.Grow(len(text))
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == '\n':
			r.begins = true
			fallthrough
		case ends(c) || strings.ContainsRune("(<—", c):
			r.begins = r.begins || strings.ContainsRune("。！？；", c)
			r.plain.WriteString(text[i : i+size])
			i += size
		default:
			i += r.token(i)
		}
	}
	return r
}

// survey looks at all words of the task. Where most are capitalised, a capital is no sign of a name.
func (r *reader) survey(names bool) {
	upper, lower := 0, 0
	for field := range strings.FieldsSeq(r.text) {
		c, _ := utf8.DecodeRuneInString(field)
		switch {
		case unicode.IsUpper(c):
			upper++
		case unicode.IsLower(c):
			lower++
		}
		r.selects = r.selects || isA("SELECTING", field)
	}
	r.names = names && lower >= upper
}

// ends reports whether a token ends before the character. Han and Kana are words of their
// own, and have punctuation of their own.
func ends(c rune) bool {
	return unicode.IsSpace(c) || c >= 0x3000 && (c < 0x3040 || c >= 0xFF00 && c < 0xFFF0 || unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana))
}

// maxSelector is how many bytes are read to tell a CSS selector from punctuation.
const maxSelector = 200

// token reads the token at i, and returns its size in bytes.
func (r *reader) token(i int) int {
	full := len(r.found) >= maxLiterals
	if !full {
		if n := r.span(i); n > 0 {
			return n
		}
	}
	rest := r.text[i:]
	if c, size := utf8.DecodeRuneInString(rest); strings.ContainsRune("\"'`“”„‘’«»*>|={[•", c) {
		if _, ok := readSelector(rest[:min(len(rest), maxSelector)]); !ok {
			r.plain.WriteString(rest[:size])
			return size
		}
	}
	whole := rest
	if n := strings.IndexFunc(rest, ends); n >= 0 {
		whole = rest[:n]
	}
	token := trimEnd(whole)
	if token == "" {
		r.plain.WriteString(whole)
		return len(whole)
	}
	size := len(token)
	if full {
		r.plain.WriteString(token)
	} else if line := commandLine(r.before, token, r.ahead(rest, maxQuoted)); line != "" {
		r.take(line, value{kind: analysis.CommandType, optional: line})
		r.before = ""
		return len(line)
	} else if n := r.date(i, token); n > 0 {
		size = n
	} else if isA("ORDINALS", token) && r.before == "the" {
		r.take(token, value{kind: analysis.NumberType})
	} else if v, ok := r.classify(token); ok {
		r.take(token, v)
	} else {
		r.word(i, token)
	}
	r.before = strings.ToLower(token)
	if size > len(whole) {
		return size
	}
	tail := whole[size:]
	r.begins = strings.ContainsAny(tail, ".!?:;")
	r.plain.WriteString(tail)
	return len(whole)
}

// trimEnd cuts off the punctuation after a token, but not a parenthesis of its own.
func trimEnd(token string) string {
	for {
		short := strings.TrimRight(token, `,;:!?."'>*`+"`")
		for _, end := range []string{"…", "”", "’", "»", "“"} {
			short = strings.TrimSuffix(short, end)
		}
		for _, pair := range []string{"()", "[]", "{}"} {
			if strings.HasSuffix(short, pair[1:]) && !strings.Contains(short, pair[:1]) {
				short = short[:len(short)-1]
			}
		}
		if len(short) == len(token) {
			return token
		}
		token = short
	}
}

// take takes a literal out of the task, and leaves the words that it keeps.
func (r *reader) take(text string, v value) {
	r.found = append(r.found, Literal{v.kind, text, v.extension})
	r.spots = append(r.spots, spot{r.plain.Len(), v.kind})
	r.begins = false
	for _, w := range []string{v.extension, v.optional} {
		if w != "" {
			r.leave(w)
		}
	}
	r.plain.WriteString(" " + v.unit + " ")
}

// leave adds optional words.
func (r *reader) leave(words string) {
	r.plain.WriteString(" " + words)
	r.optional.WriteString(" " + words)
}

// word adds the word at i. It is optional where it is a name, or the unit of time of a
// number.
func (r *reader) word(i int, token string) {
	name := strings.TrimSuffix(strings.TrimSuffix(token, "'s"), "’s")
	switch {
	case (!r.begins || len(name) < len(token)) && r.names && isName(name):
		if last := len(r.found) - 1; last >= 0 && r.nameEnd == i-1 && r.text[i-1] == ' ' {
			r.found[last].Text += " " + name
		} else {
			r.found = append(r.found, Literal{Type: analysis.NameType, Text: name})
		}
		r.nameEnd = i + len(token)
		r.leave(strings.ToLower(name)) // MySQL is one word
	case isA("PERIODS", token) && isNumber(r.before):
		r.leave(token)
	case len(analysis.Joined(token)) == 1:
		r.plain.WriteString(strings.ToLower(token))
	default:
		r.plain.WriteString(token)
	}
}

// isName reports whether a capitalised word within a sentence is the name of something: no
// acronym, and no word that tools have for their actions or objects.
func isName(word string) bool {
	c, size := utf8.DecodeRuneInString(word)
	if !unicode.IsUpper(c) || !strings.ContainsFunc(word, unicode.IsLower) {
		return false
	}
	for _, c := range word[size:] {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-' {
			return false
		}
	}
	return !isCommon(word)
}

// isCommon reports whether all of a word, which may be a joined one, is in the lists of words.
func isCommon(word string) bool {
	const other = "task " // next to another word, analysis.Words leaves stop words out
	for _, w := range analysis.Words(other + word)[1:] {
		if l := wordLists(); !l.chatter[w] && !l.general[w] && !l.actions[w] && l.synonyms[w] == nil {
			return false
		}
	}
	return true
}
