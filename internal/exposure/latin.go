package exposure

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// latin returns the text in ASCII: Latin letters without accents, those that stand for Cyrillic and Greek ones, and an
// underscore for the letters of other scripts.
func latin(text string) string {
	var b strings.Builder
	for _, r := range letters().Replace(norm.NFKD.String(text)) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case !unicode.Is(unicode.Mn, r) && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	return b.String()
}

// letters has the Latin letters for those that do not consist of one and an accent; the first that fits counts.
var letters = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for pair := range strings.FieldsSeq(norm.NFKD.String(`й:y ё:yo ї:yi а:a б:b в:v г:g д:d е:e ж:zh з:z и:i к:k л:l м:m н:n о:o п:p р:r с:s т:t у:u ф:f х:kh
		ц:ts ч:ch ш:sh щ:shch ъ: ы:y ь: э:e ю:yu я:ya і:i є:ye ґ:g ј:j љ:lj њ:nj ђ:dj ћ:c џ:dz
		α:a β:v γ:g δ:d ε:e ζ:z η:i θ:th ι:i κ:k λ:l μ:m ν:n ξ:x ο:o π:p ρ:r σ:s ς:s τ:t υ:y φ:f χ:ch ψ:ps ω:o ß:ss æ:ae ø:o œ:oe ł:l đ:d ð:d þ:th ı:i`)) {
		from, to, _ := strings.Cut(pair, ":")
		pairs = append(pairs, from, to)
		if upper := strings.ToUpper(from); upper[0] >= utf8.RuneSelf { // that of ı is I
			pairs = append(pairs, upper, to)
		}
	}
	return strings.NewReplacer(pairs...)
})

const maxWords = 24 // bytes of the words that stand for a name

// readable returns a name in ASCII that people can read: the letters of the name, or if it has no letters that
// latin knows, the first words about the item.
func readable(name, about string) string {
	if said := strings.Trim(latin(name), "_"); hasWord().MatchString(said) {
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

// hasWord matches two letters of ASCII, one after the other.
var hasWord = lazy.Regexp("[A-Za-z]{2}")

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}
