// Package secret knows what looks like a secret: by the name that it has ([Named]), by
// its form or what stands before it in a text ([Hide]), by its place on a command line
// ([Words]), and by where an entry of the configuration has it ([Of]). There is no
// telling for sure: what none of these shows is not found, and some of what is found is
// harmless.
//
// It is for all who show people what they did not write themselves. What stands for a
// secret is theirs to say.
package secret

import (
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
	"password", "passwd", "passphrase", "passcode", "secret", "credential", "cookie", "bearer", "authorization", "authheader", "connectionstring",
	"apikey", "accesskey", "accountkey", "privatekey", "signingkey", "encryptionkey", "sessionkey", "masterkey", "sharedkey", "authkey", "sshkey",
}

// ends are at the end of such names, and words are the last word of them, or the only
// one: a compass is no secret, and DB_PASS is.
var (
	ends  = []string{"token", "tokens", "pwd", "auth", "sessionid", "jwt"}
	words = []string{"pass", "passw", "pw", "otp", "pin", "dsn", "psk"}
)

// Named reports whether what has this name is a secret: password, "Api-Key", dbPass,
// but not author, token_count or monkey.
func Named(name string) bool {
	last, plain := split(name)
	return slices.ContainsFunc(within, func(word string) bool { return strings.Contains(plain, word) }) ||
		slices.ContainsFunc(ends, func(word string) bool { return strings.HasSuffix(plain, word) }) ||
		slices.Contains(words, last)
}

// option is Named for options and for the query of a URL, where a key opens something.
func option(name string) bool {
	last, _ := split(name)
	return Named(name) || last == "key" || last == "sig" || last == "signature"
}

// longestName bounds what is looked at of a name, in bytes.
const longestName = 200

// split returns the last word of a name, and the name without what separates words; in
// lower case, without digits at the end.
func split(name string) (last, plain string) {
	name = strings.TrimRightFunc(name[:min(len(name), longestName)], func(r rune) bool { return !unicode.IsLetter(r) })
	all := make([]rune, 0, len(name))
	begin, lower := 0, false // of the last word; what was before is a lower case letter
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			begin, lower = len(all), false
			continue
		}
		if lower && unicode.IsUpper(r) {
			begin = len(all)
		}
		lower = unicode.IsLower(r)
		all = append(all, unicode.ToLower(r))
	}
	return string(all[begin:]), string(all)
}

// What follows is compiled for those who need it.

// forms are texts that are secrets by what they look like.
var forms = once(strings.Join([]string{
	`(?i:\bbearer\s+[a-z0-9._~+/=-]{8,})`,
	`(?i:\b(?:basic|digest|token)\s+[a-z0-9._~+/=-]{16,})`,
	`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}`,   // OpenAI, Anthropic, Stripe
	`\bgh[pousr]_[A-Za-z0-9]{16,}`,           // GitHub
	`\bgithub_pat_[A-Za-z0-9_]{16,}`,         //
	`\bgl[a-z]{2,6}-[A-Za-z0-9_-]{16,}`,      // GitLab
	`\bxox[a-z]-[A-Za-z0-9-]{8,}`,            // Slack
	`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}`, // AWS
	`\bAIza[A-Za-z0-9_-]{20,}`,               // Google
	`\bya29\.[A-Za-z0-9_-]{16,}`,             //
	`\b(?:npm|hf|dop_v1|dckr_pat|pypi|shpat|lin_api|ntn|figd)[_-][A-Za-z0-9_-]{16,}`,
	`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}`, // JSON Web Tokens
	`(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$))`,
}, "|"))

// lines are headers whose values have several words.
var lines = once(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?\s*[:=]\s*\\*["']?)[^"'\r\n\\]+`)

// named is what stands before a value that it names, in code, JSON, URLs, and on a
// command line; opening is such a value.
var (
	named   = once(`([A-Za-z][A-Za-z0-9_.$-]*)(?:\\*["']?\s*(?::=|=>|[:=])\s*)`)
	opt     = once(`(?:^|[\s"'])--?([A-Za-z][A-Za-z0-9_.-]*)\s+`) // its value does not begin with a hyphen
	opening = once(`^(?:\\+"[^"]*"?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s&,;"']+)`)
)

// userinfo is what a URL says of who asks.
var userinfo = once(`([A-Za-z][A-Za-z0-9+.-]{1,30}://)[^/?#\s"'<>]+@`)

func once(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Hide returns a text in which hidden stands for what looks like a secret.
func Hide(text, hidden string) string {
	text = forms().ReplaceAllLiteralString(text, hidden)
	text = lines().ReplaceAllString(text, "${1}${2}"+strings.ReplaceAll(hidden, "$", "$$"))
	text = hideNamed(text, hidden, named())
	text = hideNamed(text, hidden, opt())
	return userinfo().ReplaceAllString(text, "${1}"+strings.ReplaceAll(hidden, "$", "$$")+"@")
}

// hideNamed hides the values behind what the expression finds, if its name is that of a
// secret.
func hideNamed(text, hidden string, name *regexp.Regexp) string {
	var out strings.Builder
	shown := 0 // what of the text is in out or hidden
	for _, at := range name.FindAllStringSubmatchIndex(text, -1) {
		before, is := byte(' '), Named
		if at[2] > 0 {
			before = text[at[2]-1]
		}
		if before == '?' || before == '&' || before == '-' {
			is = option
		}
		if at[0] < shown || !is(text[at[2]:at[3]]) {
			continue
		}
		value := opening().FindString(text[at[1]:])
		if value == "" || name == opt() && value[0] == '-' {
			continue
		}
		out.WriteString(text[shown:at[1]])
		out.WriteString(hidden)
		shown = at[1] + len(value)
	}
	if shown == 0 {
		return text
	}
	out.WriteString(text[shown:])
	return out.String()
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
		case i > 0 && IsOption(words[i-1]) && !strings.HasPrefix(word, "-"), isRandom(word):
			shown[i] = hidden
		case joined && value != "" && isName(name) && (option(name) || isRandom(value)):
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
