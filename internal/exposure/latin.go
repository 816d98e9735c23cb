package exposure

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// latin returns the text in ASCII: Latin letters without accents, and an underscore for the letters of other scripts.
func latin(text string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(letters.Replace(text)) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case !unicode.Is(unicode.Mn, r) && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	return b.String()
}

// letters has the Latin letters that do not consist of one and an accent.
var letters = strings.NewReplacer("ß", "ss", "æ", "ae", "ø", "o", "œ", "oe", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i",
	"Æ", "Ae", "Ø", "O", "Œ", "Oe", "Ł", "L", "Đ", "D", "Ð", "D", "Þ", "Th")

const maxWords = 24 // bytes of the words that stand for a name

// readable returns a name in ASCII that people can read: the letters of the name, or if it has no letters that
// latin knows, the first words about the item.
func readable(name, about string) string {
	if said := strings.Trim(latin(name), "_"); hasWord(said) {
		return said
	}
	var b strings.Builder
	for _, word := range strings.FieldsFunc(latin(about[:min(len(about), 500)]), func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if b.Len()+1+len(word) > maxWords {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(word))
	}
	return b.String()
}

// hasWord reports whether two letters of ASCII are in the text, one after the other.
func hasWord(text string) bool {
	run := 0
	for _, r := range text {
		if run++; r >= utf8.RuneSelf || !unicode.IsLetter(r) {
			run = 0
		}
		if run == 2 {
			return true
		}
	}
	return false
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}
