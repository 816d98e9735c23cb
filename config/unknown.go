package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/ended"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// Levels of objects.
const (
	atEntry  = keys.Entry
	atTools  = keys.Tools
	atOAuth  = keys.OAuth
	atRouter = keys.Router
)

// unknown reports a key that has no effect where it stands, unless another client knows it. It is a mistake if
// the key was probably meant as another one, or to stand elsewhere, and in an object that restricts.
func (d *checker) unknown(m hujson.ObjectMember, known fields) {
	key, at := jsonc.Key(m), m.Name.StartOffset
	if table().IsForeign(d.level, key, m.Value.Value.Kind() == '{') || d.hasEnded(m) {
		return
	}
	if d.strange++; d.strange > maxStrange {
		d.mistake(at, "the key %q is not known, as %d others; remove them", key, maxStrange)
		return
	}
	general := d.level == "" && d.source.general
	if meant, ok := keys.Nearest(key, slices.Sorted(maps.Keys(known))); ok && (!general || meant == atRouter || slices.Contains(roots, meant)) {
		report := d.mistake
		if d.level == "" && meant != atRouter && d.source.rooted {
			report = d.warn
		}
		report(at, "the key %q is not known; did you mean %q?", key, meant)
		return
	}
	if inner, ok := wrapped(m); ok && d.level == "" {
		d.warn(at, "the servers under %q in %q are not read; write %[1]q at the top level of the file", inner, key)
		return
	}
	if d.level == "" && key == "mcp" && m.Value.Value.Kind() == '{' && !d.source.rooted {
		d.refuse(at, `the servers under "mcp" are not read; if they are opencode's, run: metarouter import opencode --file %s --write`, commandline.Quote(d.source.path))
		return
	}
	level, isElsewhere := table().Elsewhere(d.level, key)
	report := d.mistake
	if general {
		switch o, ok := m.Value.Value.(*hujson.Object); {
		case key != "http" && isElsewhere && level == atRouter:
			d.misplaced(d.warn, m, level)
		case key == "http" && ok && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return knownAt(atHTTP, jsonc.Key(m)) }):
			d.misplaced(d.refuse, m, level)
		}
		return // others are settings of the other client
	}
	if setting, ok := settingOf(m); ok {
		report = d.refuse
		if !isElsewhere {
			level, isElsewhere = setting, true
		}
	} else if restricts(key, d.level) {
		report, level, isElsewhere = d.refuse, keys.Profile, true
	} else if d.level == "" && level != atCluster {
		report = d.warn // it is another program's
	}
	switch {
	case isElsewhere:
		d.misplaced(report, m, level)
	case d.effect != "" && d.name == "":
		d.mistake(at, "the key %q is not known; remove it, or correct its name", key)
	default:
		d.warn(at, "the key %q is not known and has no effect; remove it, or correct its name", key)
	}
}

// restricts reports whether a key at a level was meant to restrict what clients may use, in a profile.
func restricts(key, level string) bool {
	switch key {
	case "readOnly", "ask", "arguments":
		return level == "" || level == atRouter || level == atHTTP
	case "allow", "deny": // in a file, another program may have them
		return level == atRouter || level == atHTTP
	}
	return false
}

// settingOf returns the level of a key that is for all clients. Without it, more may be allowed.
func settingOf(m hujson.ObjectMember) (level string, ok bool) {
	key := jsonc.Key(m)
	for _, level := range []string{atHTTP, atRouter} {
		if knownAt(level, key) {
			return level, true
		}
	}
	if key == DefaultProfile && m.Value.Value.Kind() == '{' {
		return atProfiles, true
	}
	return "", key == atRouter
}

// hasEnded reports whether metarouter no longer has the key, and warns of it.
func (d *checker) hasEnded(m hujson.ObjectMember) bool {
	line, ok := ended.Keys()[keys.Below(d.level, jsonc.Key(m))]
	if ok {
		d.warn(m.Name.StartOffset, "%s", line)
	}
	return ok
}

// misplaced reports a key that belongs at another level.
func (d *checker) misplaced(report func(offset int, format string, args ...any), m hujson.ObjectMember, level string) {
	place := "at the top level of the file"
	if level != "" {
		place = "in " + strings.ReplaceAll(level, "*", "NAME")
	}
	report(m.Name.StartOffset, "the key %q has no effect here; write it %s", jsonc.Key(m), place)
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
	if !isObject && keys.IsComment(key) {
		return true
	}
	if isObject && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return slices.Contains(starters, jsonc.Key(m)) }) {
		return false
	}
	if isObject && prose.Similar(key, atRouter) && settingObject(atRouter, o) {
		d.refuse(m.Name.StartOffset, "the key %q is that of no server; write %q at the top level of the file", key, atRouter)
		return true
	}
	for _, level := range []string{"", atHTTP, atRouter, atEntry, atTools} {
		if knownAt(level, key) && (!isObject || settingObject(keys.Below(level, key), o)) {
			d.misplaced(d.refuse, m, level)
			return true
		}
	}
	return false
}

// starters are keys that only the entry of a server has.
var starters = []string{"command", "url", "httpUrl", "serverUrl", "args", "type", "transport", "source", "settings"}

// settingObject reports whether an object has the keys that one at a path has.
func settingObject(path string, o *hujson.Object) bool {
	return table()[keys.Below(path, "*")] != nil || slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return knownAt(path, jsonc.Key(m)) })
}
