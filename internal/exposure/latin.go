package exposure

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// latin returns the text in ASCII: letters of Latin, Cyrillic and Greek script, kana and Hangul become
// letters that sound alike, all others an underscore.
func latin(text string) string {
	var b strings.Builder
	for _, r := range norm.NFC.String(text) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		if s := latinLetter(unicode.ToLower(r)); s != "_" || !strings.HasSuffix(b.String(), "_") {
			b.WriteString(s)
		}
	}
	return b.String()
}

// latinLetter returns the ASCII letters for a letter that is not ASCII, "_" for any other.
func latinLetter(r rune) string {
	if s, ok := letters()[r]; ok {
		return s
	}
	if r >= 0x30a1 && r <= 0x30f6 { // katakana stand as hiragana do
		if s, ok := letters()[r-0x60]; ok {
			return s
		}
	}
	if i := int(r - 0xac00); i >= 0 && i < 11172 { // the Unicode Standard, 3.12: 21 vowels by 28 ends for each first sound
		return hangulFirst[i/588] + hangulVowel[i%588/28] + hangulLast[i%28]
	}
	base, _ := utf8.DecodeRuneInString(norm.NFKD.String(string(r)))
	switch {
	case base < utf8.RuneSelf && (unicode.IsLetter(base) || unicode.IsDigit(base)):
		return strings.ToLower(string(base))
	case base != r:
		if s, ok := letters()[base]; ok {
			return s
		}
	case unicode.Is(unicode.Mn, r):
		return ""
	}
	return "_"
}

// letters are the Latin letters for others, without accents.
var letters = sync.OnceValue(func() map[rune]string {
	all := make(map[rune]string)
	for _, pair := range strings.Fields(`а:a б:b в:v г:g д:d е:e ё:yo ж:zh з:z и:i й:y к:k л:l м:m н:n о:o п:p р:r с:s т:t у:u ф:f х:kh ц:ts ч:ch ш:sh щ:shch ъ: ы:y ь: э:e ю:yu я:ya
		і:i ї:yi є:ye ґ:g ў:u ј:j љ:lj њ:nj ђ:dj ћ:c џ:dz
		α:a β:v γ:g δ:d ε:e ζ:z η:i θ:th ι:i κ:k λ:l μ:m ν:n ξ:x ο:o π:p ρ:r σ:s ς:s τ:t υ:y φ:f χ:ch ψ:ps ω:o
		ß:ss æ:ae ø:o œ:oe ł:l đ:d ð:d þ:th ı:i
		あ:a い:i う:u え:e お:o か:ka き:ki く:ku け:ke こ:ko が:ga ぎ:gi ぐ:gu げ:ge ご:go さ:sa し:shi す:su せ:se そ:so ざ:za じ:ji ず:zu ぜ:ze ぞ:zo
		た:ta ち:chi つ:tsu て:te と:to だ:da ぢ:ji づ:zu で:de ど:do な:na に:ni ぬ:nu ね:ne の:no は:ha ひ:hi ふ:fu へ:he ほ:ho ば:ba び:bi ぶ:bu べ:be ぼ:bo
		ぱ:pa ぴ:pi ぷ:pu ぺ:pe ぽ:po ま:ma み:mi む:mu め:me も:mo や:ya ゆ:yu よ:yo ら:ra り:ri る:ru れ:re ろ:ro わ:wa を:o ん:n
		ゃ:ya ゅ:yu ょ:yo っ: ぁ:a ぃ:i ぅ:u ぇ:e ぉ:o ゔ:vu ー:`) {
		letter, _ := utf8.DecodeRuneInString(pair)
		_, all[letter], _ = strings.Cut(pair, ":")
	}
	return all
})

// The sounds of Hangul syllables, in the order of Unicode.
var (
	hangulFirst = strings.Split("g kk n d tt r m b pp s ss  j jj ch k t p h", " ")
	hangulVowel = strings.Split("a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i", " ")
	hangulLast  = strings.Split(" k k k n n n t l l l l l l l l m p p t t ng t t k t p t", " ")
)

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
