package secret

import (
	"slices"
	"strings"
	"unicode"
)

// Names of secrets in sentences, and the words that may stand between such a name and the
// value.
var (
	passwords = []string{"password", "passwort", "kennwort", "passwd", "pwd", "passphrase", "passcode", "pin", "contraseña", "contrasena", "senha", "mdp", "passe"}
	joined    = []string{"密码", "密碼", "パスワード"} // without a space before the value

	keyKinds = []string{"api", "access", "private", "secret", "ssh", "signing", "encryption", "license", "master"}
	links    = []string{"is", "=", ":", "to", "as", "ist", "lautet", "es", "est", "é", "auf", "a", "à"}
	fillers  = []string{"the", "my", "his", "her", "their", "our", "new", "value", "of", "for", "with", "user", "set", "der", "die", "das", "el", "la", "le", "de"}

	// aboutPasswords are words that follow "password" and are no password.
	aboutPasswords = []string{
		"reset", "resets", "manager", "policy", "policies", "field", "hash", "hashes", "strength", "generator", "change", "changes",
		"protected", "protection", "expiry", "expired", "expires", "rotation", "length", "from", "in", "on", "and", "or", "that", "so",
	}
)

// HideSpoken is [Hide] for sentences, in which nothing but words such as "the password is"
// leads to a secret. The words of the result are separated by single spaces.
func HideSpoken(text, hidden string) string {
	words := Words(strings.Fields(Hide(text, hidden)), hidden)
	for i := 0; i < len(words); i++ {
		for _, name := range joined {
			if at := strings.Index(words[i], name); at >= 0 && at+len(name) < len(words[i]) {
				words[i] = words[i][:at+len(name)] + hidden
			}
		}
		if kind := spokenName(words, i); kind != "" {
			i = hideNext(words, i, kind, hidden)
		}
	}
	return strings.Join(words, " ")
}

// spokenName returns the name for which the word stands: "password", "secret", or "" for neither.
func spokenName(words []string, i int) string {
	word := bare(words[i])
	switch {
	case slices.Contains(passwords, word), strings.HasPrefix(word, "password"):
		return "password"
	case word == "key" && i > 0 && slices.Contains(keyKinds, bare(words[i-1])), word != "" && Named(word):
		return "secret"
	}
	return ""
}

// hideNext hides the value that follows a name, and returns the index of the last word that
// it has read.
func hideNext(words []string, i int, kind, hidden string) int {
	linked := strings.ContainsAny(words[i][len(words[i])-1:], ":=")
	next := i + 1
	for ; next < len(words) && next <= i+4; next++ {
		if word := strings.ToLower(words[next]); slices.Contains(links, word) {
			linked = true
		} else if !slices.Contains(fillers, word) {
			break
		}
	}
	if next >= len(words) || next > i+4 {
		return i
	}
	word := words[next]
	plain := bare(word)
	direct := kind == "password" && next == i+1 && !slices.Contains(aboutPasswords, plain)
	if !linked && !direct && !generated(word) || plain == "" {
		return i
	}
	quote := strings.IndexAny("\"'`", word[:1])
	words[next] = hidden
	if quote < 0 || len(word) > 1 && strings.HasSuffix(strings.TrimRight(word[1:], ".,;!?"), "\"'`"[quote:quote+1]) {
		return next
	}
	for end := next + 1; end < len(words); end++ { // a quotation of several words
		closed := strings.Contains(words[end], "\"'`"[quote:quote+1])
		words[end] = hidden
		if closed {
			return end
		}
	}
	return len(words)
}

// generated reports whether a word is not one of a language: it has digits, signs, quotes, or
// capitals within.
func generated(word string) bool {
	word = strings.TrimRight(word, ".,;:!?)")
	for i, r := range word {
		if !unicode.IsLetter(r) && r != '-' || i > 0 && unicode.IsUpper(r) {
			return true
		}
	}
	return false
}

// bare returns a word in lower case without the signs around it.
func bare(word string) string {
	return strings.ToLower(strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
}
