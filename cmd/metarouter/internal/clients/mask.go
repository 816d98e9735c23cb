package clients

import (
	"bytes"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// hidden stands for a value that may be a secret, or is too long to look for one.
const hidden = "•••"

// masked are the lines of data from from to to, with the values of objects such as env and headers, and
// whatever else looks like a secret, hidden, and with a [mark]; at their places among all lines, of which the
// others are empty; a line of a file that can't be read is hidden. No value of JSON goes over the end of a line.
func masked(path string, data []byte, from, to int) []string {
	raw := lines(data)
	all := make([]string, len(raw))
	d := hideIn(path, data, from, to, false)
	if d == nil {
		for i := from; i < to; i++ {
			all[i] = hidden + mark(raw[i])
		}
		return all
	}
	said := lines(d.bytes())
	copy(all[from:], said[min(from, len(said)):min(to, len(said))])
	return all
}

// Hides reports whether anything of data is hidden where it is shown.
func Hides(path string, data []byte) bool {
	all := len(lines(data))
	d := hideIn(path, data, 0, all, true)
	return d == nil && all > 0 || d != nil && d.hides
}

// A stretch is the part of a document that is shown.
type stretch struct {
	*document
	from, to int
	servers  *hujson.Value // that has the servers, nil if the root itself does
	hides    bool          // something is hidden
	once     bool          // it ends where something is hidden
}

// hideIn hides the secrets in the lines of data from from to to, or with once in the first place that has some; nil if data can't be read,
// or has no lines but empty ones.
func hideIn(path string, data []byte, from, to int, once bool) *stretch {
	d, err := open(path, data)
	if err != nil || len(bytes.TrimSpace(bytes.TrimPrefix(data, bom))) == 0 {
		return nil
	}
	shown := &stretch{document: d, from: jsonc.LineStart(d.data, from), to: jsonc.LineStart(d.data, to), once: once}
	if d.serversKey != "" {
		shown.servers = d.at(d.serversKey)
	}
	shown.mask(&d.root, "", false)
	shown.comments()
	return shown
}

func (d *stretch) has(v *hujson.Value) bool { return v.EndOffset > d.from && v.StartOffset < d.to }

// hid notes that something is hidden, and returns what is shown of a text, with its mark.
func (d *stretch) hid(text, shown string) string {
	if d.hides = true; d.once {
		d.to = d.from
	}
	return shown + mark(text)
}

// isBag reports whether every value in an object or array of that name may be a secret: env, environment, envs, headers,
// http_headers, secrets, credentials; but inheritEnv has names.
func isBag(name string) bool {
	lower := strings.ToLower(name)
	return lower != "inheritenv" && strings.Contains(lower, "env") || strings.Contains(lower, "header") || secret.Maybe(name)
}

// mask hides the secrets in v, which is the value of key. all says that every value is one.
func (d *stretch) mask(v *hujson.Value, key string, all bool) {
	if !d.has(v) {
		return
	}
	switch value := v.Value.(type) {
	case *hujson.Object:
		all = all || isBag(key)
		for i := range value.Members {
			m := &value.Members[i]
			name := jsonc.Key(*m)
			if d.has(&m.Name) {
				d.show(&m.Name, name)
			}
			if v == d.servers && object(&m.Value) != nil {
				name = "" // of a server, which may be any word
			}
			d.mask(&m.Value, name, all)
		}
	case *hujson.Array:
		all = all || isBag(key)
		option := "" // the element before, whose value may come next
		for i := range value.Elements {
			e := &value.Elements[i]
			if e.StartOffset >= d.to || i+1 < len(value.Elements) && value.Elements[i+1].EndOffset <= d.from {
				continue
			}
			word := ""
			if s, _ := jsonc.Text(*e); strings.HasPrefix(s, "-") {
				word, option = s, ""
			}
			d.mask(e, option, all)
			if option = word; strings.Contains(word, "=") {
				option = ""
			}
		}
	case hujson.Literal:
		all = all || secret.Maybe(key)
		switch s := value.String(); {
		case value.Kind() == '0' && all:
			v.Value = hujson.Literal(quoted(d.hid(value.String(), hidden)))
		case value.Kind() != '"' || s == "" || secret.Reference(s):
		case all, secret.Begins(s), len(s) > 1000:
			v.Value = hujson.Literal(quoted(d.hid(s, hidden)))
		default:
			d.show(v, s)
		}
	}
}

// show hides the secrets in a string.
func (d *stretch) show(v *hujson.Value, s string) {
	if shown := secret.HideMaybe(s, hidden); shown != s {
		v.Value = hujson.Literal(quoted(d.hid(s, shown)))
	}
}

// comments hides the secrets in comments, which may be entries that somebody has turned off.
func (d *stretch) comments() {
	hide := func(extra *hujson.Extra, at int) {
		if at+len(*extra) <= d.from || at >= d.to || !bytes.Contains(*extra, []byte("/")) {
			return
		}
		lines := strings.Split(string(*extra), "\n")
		for i, line := range lines {
			if shown := secret.HideMaybe(line, hidden); shown != line {
				lines[i] = d.hid(line, shown)
			}
		}
		*extra = hujson.Extra(strings.Join(lines, "\n"))
	}
	for v := range d.root.All() {
		hide(&v.BeforeExtra, v.StartOffset-len(v.BeforeExtra))
		hide(&v.AfterExtra, v.EndOffset)
		switch in := v.Value.(type) {
		case *hujson.Object:
			hide(&in.AfterExtra, v.EndOffset-1-len(in.AfterExtra))
		case *hujson.Array:
			hide(&in.AfterExtra, v.EndOffset-1-len(in.AfterExtra))
		}
	}
}
