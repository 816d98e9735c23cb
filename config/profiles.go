package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A Profile bounds the things that its clients see and use. Its patterns are of package internal/glob,
// and * matches slashes too. A pattern is compared with an item's name and
// with its ID, "server:name", or "server__name"; the name of a resource is its URI, and the name of a template its
// URI template. The zero value allows everything.
type Profile struct {
	Servers     []string `key:"servers,empty"` // patterns of names; nil is all servers, and an empty slice is no server
	Allow       []string `key:"tools.allow"`   // patterns of tools, prompts and resources, compared with IDs if they have a colon and with names if not; empty is all
	Deny        []string `key:"tools.deny"`    // patterns of these, compared with names and IDs; it wins over Allow
	ReadOnly    bool     `key:"readOnly"`      // only tools that read; see [registry.NormalizedTool.Reads]
	SkillsAllow []string `key:"skills.allow"`  // patterns of skills, compared with server:name if they have a colon and with names if not; if empty, Allow and Deny decide
	SkillsDeny  []string `key:"skills.deny"`   // likewise; it wins over SkillsAllow

	// Ask says before which calls a person is asked, in addition to calls of tools that
	// AskFor matches.
	// Ask is "never" (or ""), "destructive" (unless the tool declares that it destroys nothing, or
	// reads only), "writes" (unless the tool reads only) or "always".
	Ask    string
	AskFor []string `key:"tools.ask"`

	Mode    string   `key:"mode"`         // as in [Router]; "" is the mode of the router
	Scripts *bool    `key:"scripts"`      // whether clients may run scripts; nil is only in mode "code"
	Pinned  []string `key:"pinned,empty"` // as in [Router]; nil is the list of the router

	// Arguments are fixed values of arguments, by pattern of tools and then by property.
	Arguments map[string]map[string]json.RawMessage
}

// DefaultProfile is the name of the profile that clients have if they choose no other.
const DefaultProfile = "default"

const (
	maxProfiles  = 256      // of all files together
	maxRules     = 1000     // patterns of one list, and patterns and properties of "arguments"
	maxArguments = 64 << 10 // bytes of the fixed arguments of one profile
)

// Levels of the objects of a profile.
const (
	atProfiles = atRouter + ".profiles"
	atProfile  = atProfiles + ".*"
)

// noProfile is the value of a profile with a mistake. It allows nothing: without the wrong part, the
// profile would allow more than its author meant.
func noProfile() Profile { return Profile{Servers: []string{}, Scripts: new(bool)} }

// profilesField returns the function that decodes "profiles" on top of the profiles of earlier files.
func profilesField(d *decoder, to *map[string]Profile) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		members, err := membersOf(d.level, m.Value)
		if err != nil {
			d.mistake(m.Name.StartOffset, `"profiles" %v`, err)
			return
		}
		if *to == nil {
			*to = make(map[string]Profile)
		}
		all := *to
		seen, hasDefault := make(map[string]bool), hasMember(m.Value, DefaultProfile)
		for _, m := range members {
			name, at := jsonc.Key(m), m.Name.StartOffset
			_, earlier := all[name]
			switch {
			case keys.IsComment(name) && m.Value.Value.Kind() != '{':
				continue
			case knownAt(atProfile, name):
				d.mistake(at, "%q can't be the name of a profile, since profiles have a key of that name; write it into a profile", name)
			case name != DefaultProfile && prose.Similar(name, DefaultProfile) && !hasDefault:
				d.mistake(at, "%q is near to %q; did you mean %[2]q?", name, DefaultProfile)
			case Check(atToken+".profile", name) != nil:
				d.mistake(at, "%q can't be the name of a profile; write 1 to 32 of a-z, 0-9 and -", name)
			case seen[name]:
				d.mistake(at, "the profile %q is here twice; rename or remove one", name)
			case len(all) >= maxProfiles && !earlier:
				d.mistake(at, "there are more than %d profiles; write fewer", maxProfiles)
				return
			default:
				all[name] = d.profile(m)
			}
			seen[name] = true
		}
	}
}

// checkProfile reports the name of a profile that does not exist. The name "" is none.
func checkProfile(d *decoder, at int, name string, profiles map[string]Profile) {
	if _, ok := profiles[name]; ok || name == "" {
		return
	}
	fix := "" // of a problem that is not kept
	if d.mistakes < maxProblems {
		fix = advice(name, slices.Sorted(maps.Keys(profiles)), `write it into "profiles" of "metarouter", or name another one`)
	}
	d.mistake(at, "there is no profile %q; %s", name, fix)
}

// profile decodes one profile. With any mistake in it, it allows nothing.
func (d *decoder) profile(m hujson.ObjectMember) (p Profile) {
	name, at := jsonc.Key(m), d.level
	delete(d.profiles, name) // of an earlier file
	var asked []string       // by a list under "ask"
	d.level = atProfile
	ok := d.within(message("the profile %q allows nothing", name), func() {
		o, isObject := m.Value.Value.(*hujson.Object)
		if !isObject {
			d.mistake(m.Name.StartOffset, `%q must be an object; write {"servers": ["…"]}`, name)
			return
		}
		d.object(o, d.keys(&p, fields{"ask": askField(d, &p.Ask, &asked), "arguments": set(d, &p.Arguments, d.fixedArguments)}))
	})
	d.level = at
	if level, isKey := table().Elsewhere(at, name); !ok && isKey {
		d.misplaced(d.refuse, m, level)
	}
	if !ok {
		return noProfile()
	}
	p.AskFor = append(asked, p.AskFor...)
	d.profiles[name] = sourceMember{d.source, m}
	return p
}

// askField returns the function that decodes "ask": one of the words, or patterns.
func askField(d *decoder, ask *string, askFor *[]string) func(hujson.ObjectMember) {
	word, list := d.to(ask), reflect.ValueOf(askFor).Elem()
	return func(m hujson.ObjectMember) {
		switch m.Value.Value.Kind() {
		case '[':
			d.reportMisfit(m, list, d.value(atProfile+".tools.ask", "", m.Name.StartOffset, m.Value, list))
		case '"':
			word(m)
		default:
			d.mistake(m.Name.StartOffset, `"ask" must be "never", "destructive", "writes", "always", or an array of patterns such as ["create_*"]`)
		}
	}
}

// fixedArguments reads {"pattern": {"property": value}}.
func (d *decoder) fixedArguments(v hujson.Value) (map[string]map[string]json.RawMessage, error) {
	var all map[string]map[string]json.RawMessage
	if err := d.value("", "", 0, v, reflect.ValueOf(&all).Elem()); err != nil {
		return nil, err
	}
	n, size := 0, 0
	for _, m := range v.Value.(*hujson.Object).Members {
		text := jsonc.Key(m)
		if bad := checkPattern(text); bad != nil {
			return nil, misfitAt(m.Name.StartOffset, "."+text, bad)
		}
		if len(all[text]) == 0 {
			return nil, misfitAt(m.Name.StartOffset, "."+text, errors.New(`must fix an argument; write {"owner": "…"}`))
		}
		for name, value := range all[text] {
			n, size = n+1, size+len(name)+len(value)
		}
		if n > maxRules || size > maxArguments {
			return nil, fmt.Errorf("must have at most %d values, of %d KiB together; write fewer", maxRules, maxArguments>>10)
		}
	}
	return all, nil
}

// checkProfiles warns of patterns that match no server: an edit of another file may make them right.
func checkProfiles(d *decoder, c Config) {
	names := namesOf(c.Servers)
	for _, name := range slices.Sorted(maps.Keys(d.profiles)) {
		said, profile := d.profiles[name], c.Router.Profiles[name]
		d.source = said.source
		for i, e := range said.inner("servers").elements() {
			if fix, unmatched := names.unmatched(profile.Servers[i]); unmatched {
				d.warn(e.StartOffset, "the profile %q has the server %q, which does not exist; %s", name, profile.Servers[i], fix)
			}
		}
	}
}

// serverNames are the names with which patterns are compared.
type serverNames struct {
	all  []string
	size int // bytes of all
	cost int // of the comparisons so far: bytes of patterns times size
}

func namesOf(servers []Server) (n serverNames) {
	for _, s := range servers {
		n.all, n.size = append(n.all, s.Name), n.size+len(s.Name)
	}
	return n
}

// maxCompared bounds the cost of the comparisons with one [serverNames].
const maxCompared = 100 << 20

// unmatched reports whether a pattern matches no server, with the correction. Servers on other nodes need not be there now.
func (n *serverNames) unmatched(pattern string) (fix string, ok bool) {
	if n.cost += len(pattern) * n.size; n.cost > maxCompared || strings.Contains(pattern, "@") {
		return "", false
	}
	p, err := glob.Parse(pattern)
	if err != nil || slices.ContainsFunc(n.all, p.Match) {
		return "", false
	}
	return advice(pattern, n.all, `write the name of one in "mcpServers", or a pattern such as "files*"`), true
}

// advice returns the correction of a word: one of the words that is similar, or otherwise.
func advice(word string, words []string, otherwise string) string {
	const most = 64 // bytes that are compared with all words
	if like, ok := prose.Nearest(word[:min(len(word), most)], words); ok {
		return fmt.Sprintf("did you mean %q?", like)
	}
	return otherwise
}
