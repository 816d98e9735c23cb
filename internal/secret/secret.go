// Package secret recognizes secrets: by the name of a value ([Named]), by the form of a
// text ([Hide]), by the position in a command line ([Words]), and by the part of a
// program's launch that holds them ([Launch]). The answers are guesses: some secrets are
// missed, and some of the reported values are harmless. [Maybe] and [HideMaybe] report more.
//
// Every package that shows text which it did not write may use this one. The caller
// chooses the text that is printed in place of a secret.
package secret

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// within are parts of names that make them names of secrets. They are compared without
// the characters between words.
var within = []string{
	"passw", "passphrase", "passcode", "passkey", "secret", "credential", "cookie", "bearer", "authorization", "authheader", "connectionstring",
	"apikey", "accesskey", "accountkey", "privatekey", "signingkey", "encryptionkey", "sessionkey", "masterkey", "sharedkey", "authkey", "sshkey",
}

// ends are the ends of such names, and lasts are their last words: DB_PASS is a secret,
// compass is not.
var (
	ends  = []string{"token", "tokens", "pwd", "auth", "sessionid", "jwt"}
	lasts = []string{"pass", "keypass", "storepass", "pw", "otp", "pin", "dsn", "psk"}
)

// Named reports whether a name stands for a secret, such as password, "Api-Key" or dbPass,
// but not author, token_count or monkey.
func Named(name string) bool {
	words := split(name)
	plain := strings.Join(words, "")
	return slices.ContainsFunc(within, func(part string) bool { return strings.Contains(plain, part) }) ||
		slices.ContainsFunc(ends, func(part string) bool { return strings.HasSuffix(plain, part) }) ||
		isLast(words, lasts...)
}

// option is Named for options and for parameters of a URL's query, where "key" alone means
// a secret too.
func option(name string) bool {
	return Named(name) || isLast(split(name), "key", "sig", "signature")
}

func isLast(words []string, these ...string) bool {
	return len(words) > 0 && slices.Contains(these, words[len(words)-1])
}

// longestName is how many bytes of a name are examined, counted from its end.
const longestName = 200

// split returns the words of a name in lower case. Digits at the end of the name are
// dropped.
func split(name string) (words []string) {
	name = strings.TrimRightFunc(name[max(0, len(name)-longestName):], func(r rune) bool { return !unicode.IsLetter(r) })
	begin, lower := -1, false // begin of the word; whether the last character was a lower case letter
	for at, r := range name {
		in := unicode.IsLetter(r) || unicode.IsDigit(r)
		if begin >= 0 && (!in || lower && unicode.IsUpper(r)) {
			words, begin = append(words, strings.ToLower(name[begin:at])), -1
		}
		if in && begin < 0 {
			begin = at
		}
		lower = unicode.IsLower(r)
	}
	if begin >= 0 {
		words = append(words, strings.ToLower(name[begin:]))
	}
	return words
}

// tokens are the beginnings of known kinds of secrets. more is the least number of
// characters that must follow.
var tokens = []struct {
	begins string
	more   int
}{
	{`[spr]k[-_]`, 12},  // OpenAI, Anthropic, Stripe
	{`gh[a-z]_`, 16},    // GitHub
	{`github_pat_`, 16}, //
	{`gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|wt|soat|ffct)-`, 16}, // GitLab
	{`xox[a-z]-`, 8},                   // Slack
	{`AKIA`, 12},                       // AWS
	{`A(?:SIA|BIA|CCA)[A-Z0-9]{6}`, 6}, //
	{`AIza`, 20},                       // Google
	{`ya29\.`, 16},                     //
	{`pypi-AgE`, 16},                   //
	{`(?:npm|hf|dop_v1|dckr_pat|shpat|lin_api|ntn|figd)_`, 16},
	{`secret_[A-Za-z0-9]{16}`, 16}, // Notion
	{`eyJ`, 8},                     // JSON Web Tokens
}

// The expressions are compiled on first use.
var (
	forms = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i:\bbearer\s+[a-z0-9._~+/=-]{8,}|\b(?:basic|digest|token)\s+[a-z0-9._~+/=-]{16,})|` + tokenForms(1))
	})

	// named matches a name and the separator between it and its value, in code, JSON, URLs
	// and command lines. opening matches the value behind it, and line the value of a
	// header that has several words.
	named   = lazy.Regexp(`([?&-]*[A-Za-z0-9_.-][A-Za-z0-9_.$-]*)([\\"']*\s*(?::=|=>|[:=])\s*|\s+)`)
	opening = lazy.Regexp(`^(?:(?:""|'')+["']?` + scheme + `[^\s&,;"'}\])][^\s&,;"']*|\\+"[^"]*"?|\\+'[^']*'?|"(?:[^"\\]|\\.)*"?|'[^']*'?|` + scheme + `[^\s&,;"']+)`)
	line    = lazy.Regexp(`^[^"'\r\n\\]+`)

	scheme = `(?:(?i:bearer|basic|digest|token)\s+)?`

	// userinfo matches the user and the password of a URL.
	userinfo = lazy.Regexp(`[A-Za-z][A-Za-z0-9+.-]{1,30}://([^/?#\s"'<>]+)@`)

	reference = lazy.Regexp(`^(?:(?i:bearer|basic|token) )?\$\{(?:(?:env:|input:|keyring:)?[A-Za-z0-9_.-]+|file:[^{}:]+|op://[^{}:]+)\}$`)
)

// tokenForms returns an expression for tokens and private keys. A token may be shorter than
// its kind demands, by the factor parts.
func tokenForms(parts int) string {
	var all strings.Builder
	for _, t := range tokens {
		fmt.Fprintf(&all, `\b%s[A-Za-z0-9_-]{%d,}(?:\.[A-Za-z0-9_-]*){0,4}|`, t.begins, t.more/parts)
	}
	return all.String() + `(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$))`
}

// Reference reports whether a value consists of one reference to a variable or a stored secret,
// such as ${TOKEN} or Bearer ${keyring:TOKEN}, which is not a secret and helps the reader.
func Reference(value string) bool { return reference().MatchString(value) }

// Hide returns a text in which hidden replaces everything that looks like a secret.
func Hide(text, hidden string) string {
	if isPlain(text) {
		return text
	}
	text = hideNamed(each(text, hidden, forms(), group), hidden, false)
	return each(text, hidden, userinfo(), group)
}

// inTokens are parts of texts, one of which each token has.
var inTokens = []string{
	"k-", "k_", "gh", "github_pat_", "gl", "xox", "AKIA", "SIA", "BIA", "CCA", "AIza", "ya29.", "pypi-",
	"npm_", "hf_", "dop_v1_", "dckr_pat_", "shpat_", "lin_api_", "ntn_", "figd_", "secret_", "eyJ",
}

// isPlain reports whether no expression of Hide can match a text, as most words of command lines: a
// secret that is no token needs white space or a separator.
func isPlain(text string) bool {
	if strings.ContainsAny(text, ":= \t\n\v\f\r") {
		return false
	}
	return !slices.ContainsFunc(inTokens, func(part string) bool { return strings.Contains(text, part) })
}

// each returns a text in which hidden replaces the value of each match of the expression,
// unless the value is a reference. value returns the value's place in the text.
func each(text, hidden string, expression *regexp.Regexp, value func(text string, at []int) (from, to int)) string {
	var out strings.Builder
	shown := 0 // how much of the text is in out or hidden
	for _, at := range expression.FindAllStringSubmatchIndex(text, -1) {
		if at[0] < shown && strings.TrimLeft(text[min(at[1], shown):shown], "\\\"' \t\r\n") != "" {
			continue // it overlaps a hidden part
		}
		from, to := value(text, at)
		if from = max(from, shown); from >= to || Reference(strings.Trim(text[from:to], `\"'`)) {
			continue
		}
		if from > shown || shown == 0 {
			out.WriteString(text[shown:from] + hidden)
		}
		shown = to
	}
	return out.String() + text[shown:]
}

// group returns the place of the expression's last group, or of the whole match if it has
// no group.
func group(_ string, at []int) (from, to int) { return at[len(at)-2], at[len(at)-1] }

// hideNamed hides the values behind names of secrets. With maybe, it hides the values
// behind all names for which [Maybe] is true.
func hideNamed(text, hidden string, maybe bool) string {
	return each(text, hidden, named(), func(text string, at []int) (from, to int) {
		name, rest, is := text[at[2]:at[3]], text[at[1]:], Named
		switch {
		case strings.TrimSpace(text[at[4]:at[5]]) == "" && (name[0] != '-' || at[2] > 0 && !strings.ContainsAny(text[at[2]-1:at[2]], "\"' \t\r\n") || !maybe && strings.HasPrefix(rest, "-")):
			return 0, 0 // it is not an option, or another option follows
		case maybe:
			is = Maybe
		case strings.ContainsAny(name[:1], "?&-"):
			is = option
		}
		if !is(name) {
			return 0, 0
		}
		found := len(opening().FindString(rest))
		if isLast(split(name), "authorization", "cookie") {
			found = max(found, len(line().FindString(rest)))
		}
		return at[1], at[1] + found
	})
}

// Looks reports whether a text contains something that looks like a secret.
func Looks(text string) bool { return Hide(text, "") != text }

// Clear reports whether a value is almost certainly a secret that is written out: it has the form
// of a known token, or its name may stand for a secret and it looks generated.
func Clear(name, value string) bool {
	if strings.Contains(value, "${") {
		return false
	}
	return !isPlain(value) && forms().MatchString(value) || Maybe(name) && isRandom(value)
}

// Words returns the words of a command line, in which hidden replaces secrets: values of
// options that are named like a secret, and other text that looks like one.
func Words(words []string, hidden string) []string {
	shown := slices.Clone(words)
	for i, word := range words {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case Reference(word):
		case i > 0 && IsOption(words[i-1]) && !strings.HasPrefix(word, "-"), isRandom(word):
			shown[i] = hidden
		case joined && value != "" && !Reference(value) && isName(name) && (option(name) || isRandom(value)):
			shown[i] = name + "=" + hidden
		default:
			shown[i] = Hide(URL(word, hidden), hidden)
		}
	}
	return shown
}

// IsOption reports whether a word is an option and the next word is its value, a secret.
func IsOption(word string) bool {
	return strings.HasPrefix(word, "-") && isName(word) && option(word)
}

// isName reports whether a word can be the name of an option or a variable.
func isName(word string) bool {
	return len(word) <= longestName && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// isRandom reports whether a word looks generated: it is long, has letters and digits, and
// is not a path, a package or a version.
func isRandom(word string) bool {
	letters, digits := 0, 0
	for _, r := range word {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		case r != '-' && r != '_':
			return false
		}
	}
	return len(word) >= 20 && digits >= 4 && letters >= 8
}
