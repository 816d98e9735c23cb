package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Levels are places in a file at which objects stand: "" is the file itself, atEntry the
// entry of a server, and others are the keys that lead there, with dots.
const (
	atServers = "mcpServers"
	atEntry   = "mcpServers.*"
	atTools   = atEntry + ".tools"
	atRouter  = "metarouter"
)

// below returns the level of the object under a key.
func below(level, key string) string {
	if level == "" {
		return key
	}
	return level + "." + key
}

// keysByLevel returns the keys that may stand at each level, as the schema names them.
var keysByLevel = sync.OnceValue(func() map[string][]string {
	type node struct {
		Ref        string                     `json:"$ref"`
		Properties map[string]json.RawMessage `json:"properties"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
		Items      json.RawMessage            `json:"items"`
		Additional json.RawMessage            `json:"additionalProperties"`
		Defs       map[string]json.RawMessage `json:"$defs"`
	}
	all := make(map[string][]string)
	var defs map[string]json.RawMessage
	var walk func(level string, text json.RawMessage)
	walk = func(level string, text json.RawMessage) {
		var n node
		if json.Unmarshal(text, &n) != nil {
			return // true or false
		}
		if n.Ref != "" {
			walk(level, defs[strings.TrimPrefix(n.Ref, "#/$defs/")])
		}
		for _, either := range n.AnyOf {
			walk(level, either)
		}
		for key, value := range n.Properties {
			all[level] = append(all[level], key)
			walk(below(level, key), value)
		}
		walk(level, n.Items)
		walk(below(level, "*"), n.Additional)
	}
	var root node
	if err := json.Unmarshal([]byte(schema), &root); err != nil {
		panic(err) // a test reads it
	}
	defs = root.Defs
	walk("", []byte(schema))
	return all
})

// knownAt reports whether a key may stand at a level.
func knownAt(level, key string) bool { return slices.Contains(keysByLevel()[level], key) }

// unknown reports a key that has no effect where it stands, unless another client knows it.
func (d *decoder) unknown(m hujson.ObjectMember, known fields) {
	key := keyOf(m)
	if d.ofOthers(m) {
		return
	}
	report := d.warn
	if strings.HasPrefix(d.level, atProfile) || d.level == atCertificate {
		report = d.mistake // without a restriction, the profile or the certificate would allow more
	}
	at := m.Name.StartOffset
	if d.strange++; d.strange > maxStrange {
		if d.level == atHTTP {
			report = d.lockOut // it may be one of them
		}
		report(at, "the key %q is not known; remove it, or correct its name", key)
		return
	}
	if meant, ok := nearest(key, slices.Sorted(maps.Keys(known))); ok {
		if strings.HasSuffix(d.level, ".rules") || d.level == atToken || strings.HasPrefix(d.level, atCluster) {
			// Without a condition, the rule would apply to more texts; without a profile, the token would
			// allow more; without its name or its files, the router would join another cluster.
			report = d.mistake
		}
		if d.level == atHTTP && slices.Contains(proofKeys, meant) || d.level == atRouter && meant == "http" && hasProofs(m.Value) {
			report = d.lockOut
		}
		report(at, "the key %q is not known; did you mean %q?", key, meant)
		return
	}
	levels, general := elsewhere(d.level, key), d.level == "" && d.source.general
	inner, isWrapper := wrapped(m)
	switch {
	case len(levels) > 0 && (!general || levels[0] == atRouter):
		if strings.HasPrefix(d.level, atRouter) && slices.Contains(levels, atHTTP) && slices.Contains(proofKeys, key) || key == "http" && hasProofs(m.Value) {
			report = d.lockOut
		}
		d.misplaced(report, m, levels)
		return
	case isWrapper && d.level == "":
		d.warn(at, "the servers under %q in %q are not read; write %[1]q at the top level of the file", inner, key)
		return
	case general:
		return
	}
	report(at, "the key %q is not known and has no effect; remove it, or correct its name", key)
}

// misplaced reports a key that stands at another level than it should.
func (d *decoder) misplaced(report func(offset int, format string, args ...any), m hujson.ObjectMember, levels []string) {
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
		keyOf(m), where, strings.Join(names, " or "), skeleton(levels[0], name, keyOf(m), d.source.brief(m)))
}

// levelName says in words which object a level is.
func levelName(level string) string {
	switch level {
	case "":
		return "the top level of the file"
	case atEntry:
		return "the entry of a server"
	}
	return fmt.Sprintf("%q", level[strings.LastIndexByte(level, '.')+1:])
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

// brief returns the text of a member's value if it is short and no secret, else what
// kind of value it is.
func (s source) brief(m hujson.ObjectMember) string {
	switch m.Value.Value.Kind() {
	case '{':
		return "{…}"
	case '[':
		return "[…]"
	}
	text := string(m.Value.Value.(hujson.Literal))
	if len(text) > maxBrief || secret.Maybe(keyOf(m)) || secret.Looks(text) {
		return `"…"`
	}
	return text
}

// elsewhere returns the levels at which a key may stand and that are nearest to the level
// at which it stands: at most two steps away.
func elsewhere(from, key string) (levels []string) {
	const most = 2
	nearest := most + 1
	all := keysByLevel()
	for _, level := range slices.Sorted(maps.Keys(all)) {
		if level == from || !slices.Contains(all[level], key) {
			continue
		}
		switch n := steps(from, level); {
		case n < nearest:
			nearest, levels = n, []string{level}
		case n == nearest && n <= most:
			levels = append(levels, level)
		}
	}
	if i := slices.Index(levels, atRouter); i > 0 {
		levels[0], levels[i] = levels[i], levels[0] // it is for all servers, so it comes first
	}
	return levels[:min(len(levels), 3)]
}

// steps counts the objects between two levels. An entry is one step below the file.
func steps(from, to string) int {
	a, b := segments(from), segments(to)
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	return len(a) + len(b) - 2*same
}

func segments(level string) []string {
	if level == "" {
		return nil
	}
	return strings.Split(strings.Replace(level, atEntry, "entry", 1), ".")
}

// wrapped returns the key with servers inside a member of the file, such as "mcpServers"
// in {"mcp": {"mcpServers": …}}.
func wrapped(m hujson.ObjectMember) (key string, ok bool) {
	o, isObject := m.Value.Value.(*hujson.Object)
	if !isObject {
		return "", false
	}
	for _, root := range roots {
		if slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return keyOf(m) == root && m.Value.Value.Kind() == '{' }) {
			return root, true
		}
	}
	return "", false
}

// notAServer reports what stands among the servers and is a setting or a comment. It
// returns false for what may be meant as a server.
func (d *decoder) notAServer(m hujson.ObjectMember) bool {
	key := keyOf(m)
	o, isObject := m.Value.Value.(*hujson.Object)
	if !isObject && isComment(key) {
		return true
	}
	if isObject && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return slices.Contains(starters, keyOf(m)) }) {
		return false
	}
	var levels []string
	for _, level := range []string{"", atRouter, atEntry} {
		if knownAt(level, key) {
			levels = append(levels, level)
		}
	}
	if len(levels) == 0 || isObject && !settingObject(key, o) {
		return false
	}
	d.misplaced(d.warn, m, levels)
	return true
}

// starters are keys that only the entry of a server has.
var starters = []string{"command", "url", "httpUrl", "serverUrl", "args", "type", "transport"}

// settingObject reports whether an object among the servers is that of a setting rather
// than an entry: it has no key of an entry, or those that the setting has too.
func settingObject(key string, o *hujson.Object) bool {
	if slices.Contains([]string{"env", "headers", "tools", "capabilities"}, key) {
		return true
	}
	level := key
	if knownAt(atRouter, key) {
		level = below(atRouter, key)
	} else if slices.Contains(roots, key) {
		level = atServers
	}
	return slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool {
		return knownAt(level, keyOf(m)) || level == atServers && m.Value.Value.Kind() == '{'
	})
}
