package clients

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tailscale/hujson"
)

// hidden stands for a value that may be a secret, or is too long to look for one.
const hidden = "•••"

// words are in the names of what is secret.
const words = `token|secret|passw|passphrase|api.?key|access.?key|private.?key|credential|auth|cookie|bearer|session|account|signature|email`

// What follows is compiled when it is needed, which in most processes is never.
var (
	secretName  = compiled(`(?i)` + words + `|(^|[-_.])(key|pat|pwd|pw|pass|pin|dsn)$|^-+(u|user)$`)
	secretValue = compiled(`^(sk-|pk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ|Bearer |Basic |hf_|npm_|ntn_|secret_)`)
	known       = compiled(`\b(sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|hf_|npm_|ntn_|figd_)[A-Za-z0-9_-]{8,}`)
	inComment   = compiled(`"([^"\n]*)"(\s*:\s*)"([^"\n]+)"`)
	assigned    = compiled(`^([^=\s]{1,64})(=)(.*)$`)
	header      = compiled(`^([A-Za-z0-9-]{1,64})(:\s*)(\S.*)$`)
	inURL       = compiled(`(://(?:[^/?#\s@:]*:)?)[^/?#\s]+@|([?&][^=&#\s]+=)[^&#\s]+`)
	inPath      = compiled(`/(?:sk-[A-Za-z0-9_-]+|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*)`) // of a URL; long ones are keys

	// As a shell's command or as JSON within a string.
	inText = compiled(`(?i)([\w.-]*(?:` + words + `|[-_.]key|\bkey|[-_]pat|[-_]pass|[-_]pwd)[\w.-]*(?:["'\\]*\s*[:=]\s*["'\\]*)|(?:^|\s)-[\w.-]*(?:` + words + `|[-_]key|[-_]pat|[-_]pass|[-_]pwd)[\w.-]*\s+["']?)((?:(?:bearer|basic|token)\s+)?[^\s"'\\&,;]+)`)
	scheme = compiled(`(?i)\b(bearer|basic)(\s+)([^\s"'\\,;$]{6,})`)
)

func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// masked are the lines of data from from to to, with the values of env and headers, and
// whatever else looks like a secret, hidden; at their places among to lines, of which the
// others are empty. No value of JSON goes over the end of a line.
func masked(path string, data []byte, from, to int) []string {
	all := make([]string, to)
	d, err := open(path, data)
	if err != nil || len(bytes.TrimSpace(bytes.TrimPrefix(data, bom))) == 0 {
		return all
	}
	shown := stretch{d, lineStart(d.data, from), lineStart(d.data, to)}
	shown.mask(&d.root, "", false)
	said := lines(d.bytes())
	text := strings.Join(said[min(from, len(said)):min(to, len(said))], "\n")
	// Comments may be entries that somebody has turned off.
	text = inComment().ReplaceAllStringFunc(text, func(pair string) string {
		m := inComment().FindStringSubmatch(pair)
		if value := m[3]; !secretName().MatchString(m[1]) || value == hidden || wholeReference().MatchString(value) {
			return pair
		}
		return `"` + m[1] + `"` + m[2] + quoted(hidden)
	})
	copy(all[from:], strings.Split(known().ReplaceAllString(text, hidden), "\n"))
	return all
}

// hides reports whether anything of data is hidden where it is shown.
func hides(path string, data []byte) bool {
	all := lines(data)
	return !slices.Equal(all, masked(path, data, 0, len(all)))
}

// lineStart is where a line begins, counted from 0; the end if there are not so many.
func lineStart(data []byte, line int) int {
	at := 0
	for ; line > 0; line-- {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			return len(data)
		}
		at += n + 1
	}
	return at
}

// A stretch is what is shown of a document.
type stretch struct {
	*document
	from, to int
}

// mask hides what is secret in v, which is the value of key.
func (d stretch) mask(v *hujson.Value, key string, all bool) {
	if v.EndOffset <= d.from || v.StartOffset >= d.to {
		return
	}
	switch value := v.Value.(type) {
	case *hujson.Object:
		all = all || key == "env" || key == "headers"
		for i := range value.Members {
			m := &value.Members[i]
			d.mask(&m.Value, keyOf(*m), all)
		}
	case *hujson.Array:
		all = all || secretName().MatchString(key)
		before := ""
		for i := range value.Elements {
			e := &value.Elements[i]
			d.mask(e, before, all)
			before = ""
			if s, ok := e.Value.(hujson.Literal); ok && strings.HasPrefix(s.String(), "-") && !strings.Contains(s.String(), "=") {
				before = s.String() // an option, whose value may come next
			}
		}
	case hujson.Literal:
		secret := all || secretName().MatchString(key)
		if value.Kind() != '"' {
			if secret && value.Kind() == '0' {
				d.splice(v.StartOffset, v.EndOffset, quoted(hidden))
			}
			return
		}
		s := value.String()
		shown := s
		switch {
		case s == "" || wholeReference().MatchString(s):
		case all, secret && !strings.HasPrefix(s, "-"), secretValue().MatchString(s), len(s) > 1000:
			shown = hidden
		default:
			shown = without(s)
		}
		if shown != s {
			d.splice(v.StartOffset, v.EndOffset, quoted(shown))
		}
	}
}

// without is s without what is secret in it.
func without(s string) string {
	for _, form := range []*regexp.Regexp{header(), assigned()} {
		if m := form.FindStringSubmatch(s); m != nil && secretName().MatchString(m[1]) && !wholeReference().MatchString(m[3]) {
			return m[1] + m[2] + hidden
		}
	}
	shown := inURL().ReplaceAllStringFunc(s, func(part string) string {
		m := inURL().FindStringSubmatch(part)
		if m[1] != "" {
			return m[1] + hidden + "@"
		}
		return m[2] + hidden
	})
	if strings.Contains(s, "://") {
		shown = inPath().ReplaceAllStringFunc(shown, func(part string) string {
			if len(part) > 16 || strings.HasPrefix(part, "/sk-") {
				return "/" + hidden
			}
			return part
		})
	}
	shown = inText().ReplaceAllStringFunc(shown, func(part string) string {
		m := inText().FindStringSubmatch(part)
		if wholeReference().MatchString(m[2]) {
			return part
		}
		return m[1] + hidden
	})
	return scheme().ReplaceAllString(shown, "$1$2"+hidden)
}

// wholeReference is a value that is a variable and nothing else: no secret, and what
// one looks for.
var wholeReference = compiled(`^(Bearer )?\$\{(env:|input:)?[A-Za-z0-9_.-]+\}$`)
