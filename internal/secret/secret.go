// Package secret knows what looks like a secret: by the name that it has ([Named]), by
// its form or what stands before it in a text ([Hide]), by its place on a command line
// ([Words]), and by where an entry of the configuration has it ([Of]). There is no
// telling for sure: what none of these shows is not found, and some of what is found is
// harmless. A wider question is what may be a secret ([Maybe], [HideMaybe]).
//
// It is for all who show people what they did not write themselves. What stands for a
// secret is theirs to say.
package secret

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/mcp-metarouter/metarouter/config"
)

// within are in the names of secrets, without what separates words.
var within = []string{
	"passw", "passphrase", "passcode", "passkey", "secret", "credential", "cookie", "bearer", "authorization", "authheader", "connectionstring",
	"apikey", "accesskey", "accountkey", "privatekey", "signingkey", "encryptionkey", "sessionkey", "masterkey", "sharedkey", "authkey", "sshkey",
}

// ends are at the end of such names, and lasts are the last word of them, or the only
// one: a compass is no secret, and DB_PASS is.
var (
	ends  = []string{"token", "tokens", "pwd", "auth", "sessionid", "jwt"}
	lasts = []string{"pass", "keypass", "storepass", "pw", "otp", "pin", "dsn", "psk"}
)

// Named reports whether what has this name is a secret: password, "Api-Key", dbPass,
// but not author, token_count or monkey.
func Named(name string) bool {
	words := split(name)
	plain := strings.Join(words, "")
	return slices.ContainsFunc(within, func(part string) bool { return strings.Contains(plain, part) }) ||
		slices.ContainsFunc(ends, func(part string) bool { return strings.HasSuffix(plain, part) }) ||
		isLast(words, lasts...)
}

// option is Named for options and for the query of a URL, where a key opens something.
func option(name string) bool {
	return Named(name) || isLast(split(name), "key", "sig", "signature")
}

func isLast(words []string, these ...string) bool {
	return len(words) > 0 && slices.Contains(these, words[len(words)-1])
}

// longestName bounds what is looked at of a name, from its end, in bytes.
const longestName = 200

// split returns the words of a name in lower case, without digits at the end.
func split(name string) (words []string) {
	name = strings.TrimRightFunc(name[max(0, len(name)-longestName):], func(r rune) bool { return !unicode.IsLetter(r) })
	begin, lower := -1, false // of a word; what was before is a lower case letter
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

// tokens are texts that are secrets by how they begin, if they have so many characters
// more.
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

// What follows is compiled for those who need it.
var (
	forms = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i:\bbearer\s+[a-z0-9._~+/=-]{8,}|\b(?:basic|digest|token)\s+[a-z0-9._~+/=-]{16,})|` + tokenForms(1))
	})

	// named is what stands before a value that it names, in code, JSON, URLs, and on a
	// command line: a name with what tells an option, and what is between. opening is
	// such a value, and line is one of a header that has several words.
	named   = once(`([?&-]*[A-Za-z0-9_.-][A-Za-z0-9_.$-]*)([\\"']*\s*(?::=|=>|[:=])\s*|\s+)`)
	opening = once(`^(?:(?:""|'')+["']?` + scheme + `[^\s&,;"'}\])][^\s&,;"']*|\\+"[^"]*"?|\\+'[^']*'?|"(?:[^"\\]|\\.)*"?|'[^']*'?|` + scheme + `[^\s&,;"']+)`)
	line    = once(`^[^"'\r\n\\]+`)

	scheme = `(?:(?i:bearer|basic|digest|token)\s+)?`

	// userinfo is what a URL says of who asks.
	userinfo = once(`[A-Za-z][A-Za-z0-9+.-]{1,30}://([^/?#\s"'<>]+)@`)

	reference = once(`^(?:Bearer )?\$\{(?:env:|input:)?[A-Za-z0-9_.-]+\}$`)
)

func once(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// tokenForms are tokens that are as long as one part of so many, and private keys.
func tokenForms(parts int) string {
	var all strings.Builder
	for _, t := range tokens {
		fmt.Fprintf(&all, `\b%s[A-Za-z0-9_-]{%d,}(?:\.[A-Za-z0-9_-]*){0,4}|`, t.begins, t.more/parts)
	}
	return all.String() + `(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$))`
}

// Reference reports whether a value is a variable and nothing else, which is no secret,
// and what one looks for.
func Reference(value string) bool { return reference().MatchString(value) }

// Hide returns a text in which hidden stands for what looks like a secret.
func Hide(text, hidden string) string {
	text = hideNamed(each(text, hidden, forms(), group), hidden, false)
	return each(text, hidden, userinfo(), group)
}

// each returns a text in which hidden stands for the values of what the expression finds,
// but for references.
func each(text, hidden string, expression *regexp.Regexp, value func(text string, at []int) (from, to int)) string {
	var out strings.Builder
	shown := 0 // what of the text is in out or hidden
	for _, at := range expression.FindAllStringSubmatchIndex(text, -1) {
		if at[0] < shown && strings.TrimLeft(text[min(at[1], shown):shown], "\\\"' \t\r\n") != "" {
			continue // unless what was hidden ends where this begins
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

// group is a value that is the last group of an expression, or all that it finds.
func group(_ string, at []int) (from, to int) { return at[len(at)-2], at[len(at)-1] }

// hideNamed hides the values behind names of secrets, or behind all that Maybe are.
func hideNamed(text, hidden string, maybe bool) string {
	return each(text, hidden, named(), func(text string, at []int) (from, to int) {
		name, rest, is := text[at[2]:at[3]], text[at[1]:], Named
		switch {
		case strings.TrimSpace(text[at[4]:at[5]]) == "" && (name[0] != '-' || at[2] > 0 && !strings.ContainsAny(text[at[2]-1:at[2]], "\"' \t\r\n") || !maybe && strings.HasPrefix(rest, "-")):
			return 0, 0 // no option, or another one behind it
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

// Looks reports whether a text has something that looks like a secret.
func Looks(text string) bool { return Hide(text, "") != text }

// Words returns the words of a command line, in which hidden stands for secrets: the
// values of options that name one, and what else looks like one.
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

// IsOption reports whether a word is an option whose value is a secret and comes as the
// next word.
func IsOption(word string) bool {
	return strings.HasPrefix(word, "-") && isName(word) && option(word)
}

// isName reports whether a word can be the name of an option or a variable.
func isName(word string) bool {
	return len(word) <= longestName && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// isRandom reports whether a word looks like one that a machine has made up: it is long,
// has letters and digits, and is no path, package or version.
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

// Of returns the secrets in an entry of the configuration: its headers, and what looks
// like one in its variables, its arguments and its URL.
func Of(s config.Server) (all []string) {
	for name, value := range s.Env {
		if Named(name) && name != "PWD" || Looks(value) {
			all = append(all, value)
		}
	}
	for _, value := range s.Headers {
		all = append(all, value)
		if _, token, ok := strings.Cut(value, " "); ok { // Bearer …
			all = append(all, token)
		}
	}
	for i, shown := range Words(s.Args, "") {
		name, value, _ := strings.Cut(s.Args[i], "=")
		switch shown {
		case s.Args[i]:
		case name + "=":
			all = append(all, value)
		default:
			all = append(all, s.Args[i])
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return all
	}
	if password, ok := u.User.Password(); ok {
		all = append(all, password)
	}
	for name, values := range u.Query() {
		if option(name) {
			all = append(all, values...)
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if isRandom(part) {
			all = append(all, part)
		}
	}
	return all
}
