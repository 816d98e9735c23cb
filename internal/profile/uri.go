package profile

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A reading is a URI as a server may read it: with a path that has no "..", no backslashes and
// no escapes, and the same path with escapes.
type reading [2]string

// readings returns how servers may read a URI. Some take the query for a part of the path.
func readings(uri string) []reading {
	uri = trimmed(uri)
	scheme, rest, _ := strings.Cut(uri, ":")
	start := strings.ToLower(scheme) + "://"
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		end := index(authority, `/?#\`)
		host := strings.ToLower(authority[:end])
		if host == "localhost" && start == "file://" {
			host = ""
		}
		start, rest = start+host, authority[end:]
	} else if !strings.HasPrefix(rest, "/") {
		same := strings.ToLower(scheme) + uri[len(scheme):] // it has no path
		return []reading{{same, same}}
	}
	end := index(rest, "?#")
	return []reading{read(start, rest[:end], rest[end:]), read(start, rest, "")}
}

// ports are the ports that URIs of a scheme need not name.
var ports = map[string]string{"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}

// loosely returns how servers may read a URI that ignore its fragment, and of a file its host, its
// query and a last slash, or else a user, the usual port, a last dot of the host and the number of
// slashes, as the URL standard of browsers does. A URI must not be denied in any of these, but it
// need not be allowed in them.
func loosely(uri string) []reading {
	uri, _, _ = strings.Cut(trimmed(uri), "#")
	scheme, rest, _ := strings.Cut(uri, ":")
	scheme, rest = strings.ToLower(scheme), strings.TrimLeft(rest, `/\`)
	end := index(rest, `/?#\`)
	host, path := rest[:end], rest[end:]
	if scheme == "file" {
		path, rest = fileOf(path), fileOf(rest)
		return append(readings("file://"+path), readings("file:///"+rest)...)
	}
	port, ok := ports[scheme]
	if !ok {
		return readings(uri)
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	host = strings.TrimSuffix(strings.TrimSuffix(host, port), ".")
	return readings(scheme + "://" + host + path)
}

// fileOf returns the path of a file without a query and slashes at its end.
func fileOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimRight(path, `/\`)
}

// trimmed returns a URI without the white space that the URL standard of browsers ignores.
func trimmed(uri string) string {
	return strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(strings.TrimSpace(uri))
}

// index returns the place of the first of some bytes, or the length of the text.
func index(text, of string) int {
	if at := strings.IndexAny(text, of); at >= 0 {
		return at
	}
	return len(text)
}

func read(start, path, end string) reading {
	path = clean(unescaped(path))
	return reading{start + path + end, start + (&url.URL{Path: path}).EscapedPath() + end}
}

// clean returns a path without "..", "." and backslashes.
func clean(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ReplaceAll(text, `\`, "/")
	short := path.Clean(text)
	if strings.HasSuffix(text, "/") && short != "/" {
		short += "/"
	}
	return short
}

// unescaped decodes percent signs, and leaves those that are wrong.
func unescaped(text string) string {
	var b strings.Builder
	for text != "" {
		if len(text) > 2 && text[0] == '%' {
			if c, err := url.PathUnescape(text[:3]); err == nil {
				b.WriteString(c)
				text = text[3:]
				continue
			}
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

// file decides about a URI, in any spelling, by the skills of its server, if the profile has patterns of skills. A skill that these allow may be read,
// with all files that it lists, and nothing else in the folder of one that they refuse, nor a SKILL.md that is not listed.
func (c *compiled) file(uri item, spelled []string, skills []*registry.Skill) (may, decided bool) {
	if len(c.skillAllow)+len(c.skillDeny) == 0 {
		return false, false
	}
	for _, name := range spelled {
		decided = decided || strings.EqualFold(path.Base(name), path.Base(urls.SkillFile)) && c.skill(uri.server, name) < 0
		for _, s := range skills {
			if !s.Holds(name) {
				continue
			}
			verdict := c.skill(uri.server, s.URI)
			if verdict > 0 && slices.ContainsFunc(s.Files(), func(f registry.SkillEntry) bool { return f.URI == uri.Name }) {
				return c.hasServer(uri.server), true
			}
			decided = decided || verdict < 0
		}
	}
	return false, decided
}

// skill returns 1 if the patterns of skills allow a skill, -1 if they do not, and 0 if they say nothing about it.
func (c *compiled) skill(server, uri string) int {
	i := named(server, path.Base(path.Dir(uri)))
	_, denied := i.first(c.skillDeny)
	if denied || len(c.skillAllow) > 0 && !slices.ContainsFunc(c.skillAllow, i.IsAllowed) {
		return -1
	}
	return min(len(c.skillAllow), 1)
}
