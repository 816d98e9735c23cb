package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/foreign"
	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/ended"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/typo"
)

// Levels of objects.
const (
	atServers = "mcpServers"
	atEntry   = keys.Entry
	atTools   = atEntry + ".tools"
	atOAuth   = atEntry + ".oauth"
	atRouter  = keys.Router
)

// unknown reports a key that has no effect where it stands, unless another client knows it.
func (d *checker) unknown(m hujson.ObjectMember, known fields) {
	key, at := jsonc.Key(m), m.Name.StartOffset
	if d.ofOthers(m) || d.hasEnded(m) {
		return
	}
	if d.level == "" && foreign.IsOpencode(m) {
		d.refuse(at, "the servers under %q are written as opencode writes them, which is not read as it is; run: %s", key, importOf(d.source, "opencode"))
		return
	}
	general := d.level == "" && d.source.general
	report, paths := d.warn, guardsNamed(key, d.level)
	if strings.HasPrefix(d.level, atProfile) || d.level == atCertificates+".*" {
		report = d.mistake // without a restriction, the profile or the certificate would allow more
	}
	switch {
	case general && key != "http":
		paths = nil // it is a setting of the other client
	case m.Value.Value.Kind() != '{': // then it is no profile
		paths = slices.DeleteFunc(paths, func(path string) bool { return guardOf(path) == defaultProfile })
	}
	names := guardTable().levels[d.level] // which are compared with all keys
	if d.strange++; d.strange <= maxStrange {
		names = slices.Sorted(maps.Keys(known))
	}
	if meant, ok := keys.Nearest(key, names); ok {
		switch {
		case d.level == "" && meant != atRouter:
			if !slices.ContainsFunc(d.source.root.Members, func(m hujson.ObjectMember) bool { return slices.Contains(roots, jsonc.Key(m)) }) {
				report = d.refuse // an edit would stop all servers
			}
		case strings.HasSuffix(d.level, ".rules"):
			report = d.mistake // without a condition, the rule would apply to more texts
		default:
			// Of keys of inner objects, only those near by are meant as well.
			paths = slices.DeleteFunc(paths, func(path string) bool { return guardOf(path) == "" && keys.Steps(d.level, keys.Around(path)) > 1 })
			report = d.guard(report, append(paths, keys.Below(d.level, meant))...)
		}
		report(at, "the key %q is not known; did you mean %q?", key, meant)
		return
	}
	var levels []string
	if d.strange <= maxStrange {
		levels = table().Elsewhere(d.level, key)
	}
	if len(levels) == 0 {
		levels = keys.AllAround(paths)
	}
	inner, isWrapper := wrapped(m)
	switch {
	case len(paths) > 0, len(levels) > 0 && (!general || levels[0] == atRouter):
		d.misplaced(d.guard(report, paths...), m, levels)
	case isWrapper && d.level == "":
		d.warn(at, "the servers under %q in %q are not read; write %[1]q at the top level of the file", inner, key)
	case general:
	default:
		report(at, "the key %q is not known and has no effect; remove it, or correct its name", key)
	}
}

// ofOthers reports whether another client knows the key where it stands.
func (d *checker) ofOthers(m hujson.ObjectMember) bool {
	key := jsonc.Key(m)
	if foreign.IsComment(key) {
		return true
	}
	switch d.level {
	case "":
		return foreign.InFile(key)
	case atEntry:
		return foreign.InEntry(key)
	case atOAuth:
		return foreign.InOAuth(key) || !similarAt(atOAuth, key)
	case atTools:
		// Some have an object for each tool, by its name.
		return m.Value.Value.Kind() == '{' && !similarAt(atTools, key)
	}
	return false
}

// hasEnded reports whether metarouter no longer has the key, and warns of it.
func (d *checker) hasEnded(m hujson.ObjectMember) bool {
	line, ok := ended.Keys()[keys.Below(d.level, jsonc.Key(m))]
	if ok {
		d.warn(m.Name.StartOffset, "%s", line)
	}
	return ok
}

// similarAt reports whether a key is probably a misspelled one of the level.
func similarAt(level, key string) bool {
	_, ok := keys.Nearest(key, nodeAt(level).Keys)
	return ok
}

// importOf returns the command that imports the servers of the file.
func importOf(s source, client string) string {
	path := s.path
	if strings.ContainsAny(path, " '\"$&|;()") {
		path = quote(path)
	}
	return "metarouter import " + client + " --file " + path + " --write"
}

// misplaced reports a key that stands at another level than it should.
func (d *checker) misplaced(report reporter, m hujson.ObjectMember, levels []string) {
	var names []string
	for _, level := range levels {
		names = append(names, levelName(level))
	}
	name := cmp.Or(d.name, d.profileName, "a name")
	where := "in"
	if levels[0] == "" {
		where = "at"
	}
	report(m.Name.StartOffset, "the key %q has no effect here: it belongs %s %s; write %s",
		jsonc.Key(m), where, strings.Join(names, " or "), skeleton(levels[0], name, jsonc.Key(m), d.source.brief(m)))
}

// levelName says in words which object a level is.
func levelName(level string) string {
	switch level {
	case "":
		return "the top level of the file"
	case atEntry:
		return "the entry of a server"
	case atProfile:
		return "a profile"
	}
	return fmt.Sprintf("%q", keys.Last(level))
}

// skeleton returns the JSON of a key at its level, beginning at the top level of the file.
func skeleton(level, server, key, value string) string {
	text := fmt.Sprintf("%q: %s", key, value)
	if level == "" {
		return text
	}
	steps := strings.Split(level, ".")
	for _, step := range slices.Backward(steps) {
		if step == "*" {
			step = short(server)
		}
		text = fmt.Sprintf("%q: {%s}", step, text)
	}
	return text
}

const maxBrief = 60 // bytes of a value that is shown

// brief returns the text of a member's value if it is short and no secret, else the
// kind of the value.
func (s source) brief(m hujson.ObjectMember) string {
	switch m.Value.Value.Kind() {
	case '{':
		return "{…}"
	case '[':
		return "[…]"
	}
	text := string(m.Value.Value.(hujson.Literal))
	if len(text) > maxBrief || secret.Maybe(jsonc.Key(m)) || secret.Looks(text) {
		return `"…"`
	}
	return text
}

// wrapped returns the key with servers inside a member of the file, such as "mcpServers"
// in {"mcp": {"mcpServers": …}}.
func wrapped(m hujson.ObjectMember) (key string, ok bool) {
	o, isObject := m.Value.Value.(*hujson.Object)
	if !isObject {
		return "", false
	}
	for _, root := range roots {
		if slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return jsonc.Key(m) == root && m.Value.Value.Kind() == '{' }) {
			return root, true
		}
	}
	return "", false
}

// notAServer reports a setting or a comment among the servers. It returns false for a member that may
// be meant as a server.
func (d *checker) notAServer(m hujson.ObjectMember) bool {
	key := jsonc.Key(m)
	o, isObject := m.Value.Value.(*hujson.Object)
	if !isObject && foreign.IsComment(key) {
		return true
	}
	if isObject && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return slices.Contains(starters, jsonc.Key(m)) }) {
		return false
	}
	var levels []string
	for _, level := range []string{"", atRouter, atEntry} {
		if knownAt(level, key) {
			levels = append(levels, level)
		}
	}
	if isObject && typo.Similar(key, atRouter) && settingObject(atRouter, o) {
		d.refuse(m.Name.StartOffset, "the key %q is that of no server; write %q at the top level of the file", key, atRouter)
		return true
	}
	paths := slices.DeleteFunc(guardsNamed(key, atServers), func(path string) bool { return path == atRouter })
	if len(levels) == 0 {
		levels = keys.AllAround(paths)
	}
	if len(levels) == 0 || len(paths) == 0 && isObject && !settingObject(key, o) {
		return false
	}
	d.misplaced(d.guard(d.warn, paths...), m, levels)
	return true
}

// starters are keys that only the entry of a server has.
var starters = []string{"command", "url", "httpUrl", "serverUrl", "args", "type", "transport", "source", "settings"}

// settingObject reports whether an object among the servers is a setting and no entry: it has no key of
// an entry, or only keys that the setting has too.
func settingObject(key string, o *hujson.Object) bool {
	if slices.Contains([]string{"env", "headers", "tools", "capabilities"}, key) {
		return true
	}
	level := key
	if knownAt(atRouter, key) {
		level = keys.Below(atRouter, key)
	} else if slices.Contains(roots, key) {
		level = atServers
	}
	return slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool {
		return knownAt(level, jsonc.Key(m)) || level == atServers && m.Value.Value.Kind() == '{'
	})
}
