package clients

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// hidden stands for a value that may be a secret.
const hidden = "•••"

var (
	secretName  = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|api.?key|access.?key|private.?key|credential|auth|cookie|bearer|session|account|signature|email)`)
	secretValue = regexp.MustCompile(`^(sk-|pk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ|Bearer |Basic |hf_|npm_|ntn_|secret_)`)
	known       = regexp.MustCompile(`\b(sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|hf_|npm_|ntn_|figd_)[A-Za-z0-9_-]{8,}`)
	inComment   = regexp.MustCompile(`"([^"\n]*)"(\s*:\s*)"([^"\n]+)"`)
	assigned    = regexp.MustCompile(`^([^=\s]{1,64})=(.*)$`)
	header      = regexp.MustCompile(`^([A-Za-z0-9-]{1,64}):\s*\S`)
	inURL       = regexp.MustCompile(`(://[^/?#\s@]*:)[^/?#\s@]+@|([?&][^=&#\s]+=)[^&#\s]+`)
	inPath      = regexp.MustCompile(`/(?:sk-[A-Za-z0-9_-]+|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*)`) // of a URL; long ones are keys
)

// masked is the data with the values of env and headers, and whatever else looks like a
// secret, hidden. Its lines are those of data, in number and order, since no value of
// JSON goes over the end of a line.
func masked(path string, data []byte) []byte {
	if len(bytes.TrimSpace(data)) == 0 {
		return data
	}
	d, err := open(path, data)
	if err != nil {
		return nil
	}
	d.mask(&d.root, "", false)
	// Comments may be entries that somebody has turned off.
	text := inComment.ReplaceAllFunc(d.bytes(), func(pair []byte) []byte {
		m := inComment.FindSubmatch(pair)
		if value := string(m[3]); !secretName.Match(m[1]) || value == hidden || wholeReference.MatchString(value) {
			return pair
		}
		return slices.Concat([]byte{'"'}, m[1], []byte{'"'}, m[2], []byte(quoted(hidden)))
	})
	return known.ReplaceAll(text, []byte(hidden))
}

// mask hides what is secret in v, which is the value of key.
func (d *document) mask(v *hujson.Value, key string, all bool) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		all = all || key == "env" || key == "headers"
		for i := range value.Members {
			m := &value.Members[i]
			d.mask(&m.Value, keyOf(*m), all)
		}
	case *hujson.Array:
		before := ""
		for i := range value.Elements {
			e := &value.Elements[i]
			d.mask(e, before, all || secretName.MatchString(key))
			before = ""
			if s, ok := e.Value.(hujson.Literal); ok && strings.HasPrefix(s.String(), "-") && !strings.Contains(s.String(), "=") {
				before = s.String() // an option, whose value may come next
			}
		}
	case hujson.Literal:
		if value.Kind() != '"' {
			if all && value.Kind() == '0' {
				d.splice(v.StartOffset, v.EndOffset, quoted(hidden))
			}
			return
		}
		s := value.String()
		shown := s
		switch {
		case s == "" || wholeReference.MatchString(s):
		case all, secretName.MatchString(key) && !strings.HasPrefix(s, "-"), secretValue.MatchString(s):
			shown = hidden
		default:
			if m := assigned.FindStringSubmatch(s); m != nil && secretName.MatchString(m[1]) {
				shown = m[1] + "=" + hidden
			} else if m := header.FindStringSubmatch(s); m != nil && secretName.MatchString(m[1]) {
				shown = m[1] + ": " + hidden
			}
			shown = inURL.ReplaceAllStringFunc(shown, func(part string) string {
				if strings.HasSuffix(part, "@") {
					return part[:strings.Index(part[3:], ":")+4] + hidden + "@"
				}
				return part[:strings.Index(part, "=")+1] + hidden
			})
			if strings.Contains(s, "://") {
				shown = inPath.ReplaceAllStringFunc(shown, func(part string) string {
					if len(part) > 16 || strings.HasPrefix(part, "/sk-") {
						return "/" + hidden
					}
					return part
				})
			}
		}
		if shown != s {
			d.splice(v.StartOffset, v.EndOffset, quoted(shown))
		}
	}
}

// wholeReference is a value that is a variable and nothing else: no secret, and what
// one looks for.
var wholeReference = regexp.MustCompile(`^(Bearer )?\$\{(env:|input:)?[A-Za-z0-9_.-]+\}$`)
