package secret

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// A Launch is how a program is started, or how a remote server is reached. Its values may
// be secrets. Nothing marks them as such, so [Launch.Concealer] and [Launch.Secrets]
// guess by names and by the form of values.
type Launch struct {
	Args    []string
	Env     map[string]string
	URL     string
	Headers map[string]string
	OAuth   []string // secrets of the login
}

// Secrets returns the values of the launch that are secrets: all headers, the secrets of the login,
// and the variables, arguments and parts of the URL that look like secrets.
func (l Launch) Secrets() (all []string) {
	all = slices.Clone(l.OAuth)
	for name, value := range l.Env {
		if Named(name) && name != "PWD" || Looks(value) {
			all = append(all, value)
		}
	}
	for _, value := range l.Headers {
		all = append(all, value)
		if _, token, ok := strings.Cut(value, " "); ok { // Bearer …
			all = append(all, token)
		}
	}
	for i, shown := range Words(l.Args, "") {
		name, value, _ := strings.Cut(l.Args[i], "=")
		switch shown {
		case l.Args[i]:
		case name + "=":
			all = append(all, value)
		default:
			all = append(all, l.Args[i])
		}
	}
	u, err := url.Parse(l.URL)
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

// Concealer returns a function that replaces secrets of the launch in a text by their
// names, such as "${TOKEN}" or "<Authorization>": a server may print its own values.
// It looks for more values than [Launch.Secrets] returns.
func (l Launch) Concealer() func(string) string {
	var found values
	for name, value := range l.Env {
		found.add(value, "${"+name+"}", option(name))
		found.addURL(value, "${"+name+"}")
	}
	for name, value := range l.Headers {
		found.addHeader(value, "<"+name+">")
	}
	found.addURL(l.URL, "…")
	for i, arg := range l.Args {
		name, value, assigns := strings.Cut(arg, "=")
		if !assigns {
			name, value, assigns = strings.Cut(arg, ":") // of a header
		}
		switch {
		case assigns && isName(name) && option(name):
			found.addHeader(strings.TrimSpace(value), "…")
		case i > 0 && IsOption(l.Args[i-1]), isRandom(arg):
			found.add(arg, "…", true)
		}
		found.addURL(arg, "…")
	}
	return found.replacer()
}

// values are secrets and the names that are printed in their place.
type values []struct{ value, name string }

// add adds a value, unless it is harmless. named means that its name or its position
// calls it a secret.
func (all *values) add(value, name string, named bool) {
	if isConcealed(value, named) {
		*all = append(*all, struct{ value, name string }{value, name})
	}
}

// addHeader adds the value of a header, and the token behind a scheme such as "Bearer".
func (all *values) addHeader(value, name string) {
	all.add(value, name, true)
	if _, token, ok := strings.Cut(value, " "); ok {
		all.add(token, name, true)
	}
}

// addURL adds the password, the query and the random path segments of a URL.
func (all *values) addURL(text, name string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return
	}
	if password, ok := u.User.Password(); ok {
		all.add(password, name, true)
	}
	all.add(u.RawQuery, name, true)
	for _, values := range u.Query() {
		for _, v := range values {
			all.add(v, name, true)
		}
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		all.add(segment, name, isRandom(segment))
	}
}

// replacer returns a function that replaces the values by their names. Longer values come
// first, since a shorter one may be a part of them.
func (all values) replacer() func(string) string {
	if len(all) == 0 {
		return func(text string) string { return text }
	}
	slices.SortFunc(all, func(a, b struct{ value, name string }) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.name, b.name))
	})
	var pairs []string
	for _, s := range all {
		pairs = append(pairs, s.value, s.name)
	}
	return strings.NewReplacer(append(pairs, pairs[:2]...)...).Replace // of one pair alone, its table takes quadratic time
}

// isConcealed reports whether a value is replaced in the output of a server. A value that
// nothing calls a secret is shown if it is a word, a number, a path, or an address without
// a password.
func isConcealed(value string, named bool) bool {
	if len(value) < 4 || harmless().MatchString(value) {
		return false
	}
	letters, digits := strings.ContainsFunc(value, unicode.IsLetter), strings.ContainsFunc(value, unicode.IsDigit)
	switch {
	case named:
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

// URL returns a text in which hidden replaces the parts of URLs that may be secret: a
// password, the values of a query, and path segments that look generated.
func URL(text, hidden string) string {
	if !strings.Contains(text, "://") { // as most words of command lines
		return text
	}
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
	harmless = lazy.Regexp(`^(?i:true|false|none|null|auto|basic|bearer|oauth2?|\d{1,5})$`)
	address  = lazy.Regexp(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	queried  = lazy.Regexp(`=([^&#]+)`)
)

// StoredName returns the usual name of a stored secret for the value of a variable, an option or a
// header of a server's entry. A header has the server's name, since many entries have one of its name.
func StoredName(server, key string, header bool) string {
	if header || key == "" {
		key = server + "_TOKEN"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToUpper(strings.TrimLeft(key, "-")))
}
