package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Concealer returns what puts names in the place of the secrets that an entry holds: a
// server may print what it was given. What is secret in env, headers, args and url is
// guessed, since nothing there says so: by names, and by what values look like.
func (s Server) Concealer() func(string) string {
	type secret struct{ value, name string }
	var all []secret
	add := func(value, name string, told bool) {
		if isConcealed(value, told) {
			all = append(all, secret{value, name})
		}
	}
	addURL := func(text, name string) {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return
		}
		if password, ok := u.User.Password(); ok {
			add(password, name, true)
		}
		add(u.RawQuery, name, true)
		for _, values := range u.Query() {
			for _, v := range values {
				add(v, name, true)
			}
		}
		for segment := range strings.SplitSeq(u.Path, "/") {
			add(segment, name, looksRandom(segment))
		}
	}
	for name, value := range s.Env {
		add(value, "${"+name+"}", revealing().MatchString(name))
		addURL(value, "${"+name+"}")
	}
	for name, value := range s.Headers {
		add(value, "<"+name+">", true)
		if _, token, ok := strings.Cut(value, " "); ok { // Bearer
			add(token, "<"+name+">", true)
		}
	}
	addURL(s.URL, "…")
	for i, arg := range s.Args {
		name, value, assigns := strings.Cut(arg, "=")
		if !assigns {
			name, value, assigns = strings.Cut(arg, ":") // of a header
		}
		switch {
		case assigns && isName(name) && revealing().MatchString(name):
			value = strings.TrimSpace(value)
			add(value, "…", true)
			if _, token, ok := strings.Cut(value, " "); ok {
				add(token, "…", true)
			}
		case i > 0 && names(s.Args[i-1]), looksRandom(arg):
			add(arg, "…", true)
		}
		addURL(arg, "…")
	}
	if len(all) == 0 {
		return func(text string) string { return text }
	}
	slices.SortFunc(all, func(a, b secret) int { // what is a part of another comes after it
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.name, b.name))
	})
	var pairs []string
	for _, s := range all {
		pairs = append(pairs, s.value, s.name)
	}
	return strings.NewReplacer(pairs...).Replace
}

// isConcealed reports whether a value is looked for in what a server prints. told says
// that something calls it a secret; otherwise words, numbers, paths, and addresses
// without a password are shown.
func isConcealed(value string, told bool) bool {
	if len(value) < 4 || harmless().MatchString(value) {
		return false
	}
	letters, digits := strings.ContainsFunc(value, unicode.IsLetter), strings.ContainsFunc(value, unicode.IsDigit)
	switch {
	case told:
		return true
	case strings.HasPrefix(value, "http"):
		return strings.ContainsAny(value, "@?")
	case strings.ContainsAny(value[:1], "/~."), strings.Contains(value, `:\`):
		return false
	case len(value) < 6:
		return letters && digits
	}
	return strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsLetter(r) })
}

// Masked returns words of a command line as they may be shown: with what looks like a
// secret left out.
func Masked(words []string) []string {
	shown := slices.Clone(words)
	for i, w := range words {
		if i > 0 && names(words[i-1]) && !harmless().MatchString(w) || looksRandom(w) {
			shown[i] = "…"
			continue
		}
		if at := strings.IndexAny(w, "=:"); at > 0 && at < len(w)-1 && isName(w[:at]) && revealing().MatchString(w[:at]) {
			shown[i] = w[:at+1] + "…"
			continue
		}
		shown[i] = inScript().ReplaceAllString(MaskedURL(w), "${1}…")
	}
	return shown
}

// MaskedURL returns a text with what may be secret in the addresses in it left out: a
// password, the values of a query, and parts of the path that look like keys.
func MaskedURL(text string) string {
	return address().ReplaceAllStringFunc(text, func(u string) string {
		rest, query, asks := strings.Cut(u, "?")
		rest = userinfo().ReplaceAllString(rest, "://…@")
		parts := strings.Split(rest, "/")
		for i, part := range parts {
			if i > 2 && looksRandom(part) {
				parts[i] = "…"
			}
		}
		if rest = strings.Join(parts, "/"); asks {
			rest += "?" + queried().ReplaceAllString(query, "=…")
		}
		return rest
	})
}

// looksRandom reports whether a word is made as keys are: there is no telling.
func looksRandom(word string) bool {
	letters, digits := 0, 0
	for _, r := range word {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		case r != '-' && r != '_':
			return false // a path, a package, a version
		}
	}
	return len(word) >= 24 && digits >= 4 && letters >= 8
}

// names reports whether a word is an option that says that a secret comes next.
func names(word string) bool {
	return strings.HasPrefix(word, "-") && isName(word) && revealing().MatchString(word)
}

// isName reports whether a word can be the name of an option, a variable or a header.
func isName(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// What follows is compiled for those who need it.
var (
	revealing = compiled(`(?i)key|token|secret|passw|pwd|auth|credential|cookie|dsn`) // in the name of a secret
	harmless  = compiled(`^(?i:true|false|none|null|auto|basic|bearer|oauth2?|\d{1,5})$`)
	address   = compiled(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	userinfo  = compiled(`://[^/@\s]*@`)
	queried   = compiled(`=[^&#]+`)
	inScript  = compiled(`(?i)([a-z0-9_-]*(?:api_?key|access_?key|token|secret|passw(?:or)?d)[a-z0-9_]*=["']?)[^\s"'…&]+`) // in a script
)

func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
