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
	for _, h := range l.guess().certain {
		all = append(all, h.Value)
	}
	for i, shown := range Words(l.Args, "") { // whole words, too, such as a URL with a query
		name, value, _ := strings.Cut(l.Args[i], "=")
		switch shown {
		case l.Args[i]:
		case name + "=":
			all = append(all, value)
		default:
			all = append(all, l.Args[i])
		}
	}
	return all
}

// Concealer returns a function that replaces secrets of the launch in a text by their
// names, such as "${TOKEN}" or "<Authorization>": a server may print its own values.
// It looks for more values than [Launch.Secrets] returns.
func (l Launch) Concealer() func(string) string {
	g := l.guess()
	return Replacer(append(slices.DeleteFunc(g.certain, func(h Hidden) bool { return !isConcealed(h.Value, true) }), g.possible...)).Replace
}

// guesses are the values of a launch that may be secrets.
type guesses struct{ certain, possible []Hidden }

func (l Launch) guess() (g guesses) {
	for _, value := range l.OAuth {
		g.add(value, "…")
	}
	for name, value := range l.Env {
		shown := "${" + name + "}"
		if Named(name) && name != "PWD" || Looks(value) {
			g.add(value, shown)
		}
		g.addPossible(value, shown, option(name))
		g.addURL(value, shown)
	}
	for name, value := range l.Headers {
		g.addHeader(value, "<"+name+">")
	}
	g.addURL(l.URL, "…")
	for i, arg := range l.Args {
		name, value, assigns := strings.Cut(arg, "=")
		if !assigns {
			name, value, assigns = strings.Cut(arg, ":") // of a header
		}
		switch {
		case assigns && isName(name) && option(name):
			g.addHeader(strings.TrimSpace(value), "…")
		case i > 0 && IsOption(l.Args[i-1]), isRandom(arg), Looks(arg) && !strings.Contains(arg, "://"):
			g.addPossible(arg, "…", true)
		}
		g.addURL(arg, "…")
	}
	return g
}

func (g *guesses) add(value, shown string) {
	if value != "" {
		g.certain = append(g.certain, Hidden{value, shown})
	}
}

// addPossible adds a value, unless it is harmless. named means that its name or its position calls it a secret.
func (g *guesses) addPossible(value, shown string, named bool) {
	if isConcealed(value, named) {
		g.possible = append(g.possible, Hidden{value, shown})
	}
}

// addHeader adds the value of a header, and the token behind a scheme such as "Bearer".
func (g *guesses) addHeader(value, shown string) {
	g.add(value, shown)
	if _, token, ok := strings.Cut(value, " "); ok {
		g.add(token, shown)
	}
}

// addURL adds the password, the query and the random path segments of a URL.
func (g *guesses) addURL(text, shown string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return
	}
	if password, ok := u.User.Password(); ok {
		g.add(password, shown)
	}
	g.addPossible(u.RawQuery, shown, true)
	for name, values := range u.Query() {
		for _, value := range values {
			if option(name) {
				g.add(value, shown)
			}
			g.addPossible(value, shown, true)
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if isRandom(part) {
			g.add(part, shown)
		}
		g.addPossible(part, shown, false)
	}
}

// A Hidden is a value that is not shown, and the text that is shown in its place.
type Hidden struct{ Value, Shown string }

// Replacer returns a replacer of values by the texts that are shown. Longer values come first, since a shorter
// one may be a part of them.
func Replacer(all []Hidden) *strings.Replacer {
	all = slices.SortedFunc(slices.Values(all), func(a, b Hidden) int {
		return cmp.Or(cmp.Compare(len(b.Value), len(a.Value)), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Shown, b.Shown))
	})
	var pairs []string
	for _, h := range all {
		pairs = append(pairs, h.Value, h.Shown)
	}
	return strings.NewReplacer(append(pairs, pairs[:min(2, len(pairs))]...)...) // of one pair alone, its table takes quadratic time
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
	return unstored().ReplaceAllString(strings.ToUpper(strings.TrimLeft(key, "-")), "_")
}

var unstored = lazy.Regexp(`[^A-Z0-9._]`)
