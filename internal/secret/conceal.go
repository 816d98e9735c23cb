package secret

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/config"
)

// Concealer returns what puts names in the place of the secrets that an entry holds: a
// server may print what it was given. What is secret in env, headers, args and url is
// guessed, since nothing there says so: by names, and by what values look like.
func Concealer(s config.Server) func(string) string {
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
			add(segment, name, isRandom(segment))
		}
	}
	for name, value := range s.Env {
		add(value, "${"+name+"}", option(name))
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
		case assigns && isName(name) && option(name):
			value = strings.TrimSpace(value)
			add(value, "…", true)
			if _, token, ok := strings.Cut(value, " "); ok {
				add(token, "…", true)
			}
		case i > 0 && IsOption(s.Args[i-1]), isRandom(arg):
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

// URL returns a text in which hidden stands for what may be secret in the addresses in it: a
// password, the values of a query, and parts of the path that look like keys.
func URL(text, hidden string) string {
	return address().ReplaceAllStringFunc(text, func(u string) string {
		rest, query, asks := strings.Cut(u, "?")
		rest = each(rest, hidden, userinfo(), group)
		parts := strings.Split(rest, "/")
		for i, part := range parts {
			if i > 2 && isRandom(part) {
				parts[i] = hidden
			}
		}
		if rest = strings.Join(parts, "/"); asks {
			if !strings.Contains(query, "=") {
				return rest + "?" + hidden
			}
			rest += "?" + each(query, hidden, queried(), group)
		}
		return rest
	})
}

var (
	harmless = once(`^(?i:true|false|none|null|auto|basic|bearer|oauth2?|\d{1,5})$`)
	address  = once(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	queried  = once(`=([^&#]+)`)
)
