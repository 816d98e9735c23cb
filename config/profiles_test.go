package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestProfiles(t *testing.T) {
	c := loadText(t, `{
  "mcpServers": {"github": {"command": "x", "trustHints": true}, "files-a": {"command": "x"}},
  "metarouter": {"profiles": {
    "// why": "a comment",
    "all": {},
    "none": {"servers": []},
    "work": {
      "servers": ["github", "files*"],
      "tools": {"allow": ["get_*", "github:*"], "deny": ["delete_*"], "ask": ["create_*"]},
      "readOnly": true, "ask": "destructive", "mode": "search", "pinned": ["github:get_me"],
      "arguments": {"github:*": {"owner": "acme", "page": {"size": /* few */ 10,}, "none": null}},
    },
    "list": {"ask": ["pay*"], "tools": {"ask": ["create_*"]}, "pinned": []},
  }}
}`)
	want := map[string]Profile{
		"all":  {},
		"none": {Servers: []string{}},
		"work": {
			Servers: []string{"github", "files*"}, Allow: []string{"get_*", "github:*"}, Deny: []string{"delete_*"}, AskFor: []string{"create_*"},
			ReadOnly: true, Ask: "destructive", Mode: "search", Pinned: []string{"github:get_me"},
			Arguments: map[string]map[string]json.RawMessage{
				"github:*": {"owner": json.RawMessage(`"acme"`), "page": json.RawMessage(`{"size":10}`), "none": json.RawMessage(`null`)},
			},
		},
		"list": {AskFor: []string{"pay*", "create_*"}, Pinned: []string{}},
	}
	expect.Deep(t, c.Router.Profiles, want)
	expect.List(t, c.Problems, nil, "problems")
	if !c.Servers[0].TrustHints || c.Servers[1].TrustHints {
		t.Errorf("trustHints of the servers: %t, %t", c.Servers[0].TrustHints, c.Servers[1].TrustHints)
	}
}

// TestProfileEdits has a reading that differs in a profile be another value, and one that differs
// in spaces the same.
func TestProfileEdits(t *testing.T) {
	read := func(profiles string) Config { return loadText(t, `{"metarouter": {"profiles": {`+profiles+`}}}`) }
	a := read(`"p": {"tools": {"deny": ["x"]}, "arguments": {"*": {"a": 1}}}`)
	if !a.Equal(read(`"p": {"tools": {"deny": [ "x" ]}, "arguments": {"*": {"a":  1}}}`)) {
		t.Error("a space is an edit")
	}
	for _, edit := range []string{`"p": {"tools": {"deny": ["y"]}, "arguments": {"*": {"a": 1}}}`, `"p": {"tools": {"deny": ["x"]}, "arguments": {"*": {"a": 2}}}`, ``} {
		b := read(edit)
		if a.Equal(b) || reflect.DeepEqual(a.Router.Profiles, b.Router.Profiles) {
			t.Errorf("%s is no edit", edit)
		}
		if keys := RestartKeys(a.Router, b.Router); keys != nil {
			t.Errorf("%s waits for a restart: %q", edit, keys)
		}
	}
}

// TestProfileProblems has mistakes at the places that are marked with §. The profile of a mistake allows
// nothing: without the wrong part, it would allow more than its author meant.
func TestProfileProblems(t *testing.T) {
	long := strings.Repeat("a", 1025)
	many := strings.Repeat(`"a",`, maxRules)
	for _, tt := range []struct{ name, profile, says string }{
		{"no object", `§"p": []`, `must be an object`},
		{"a typo", `"p": {§"sevrers": ["s"]}`, `did you mean "servers"?`},
		{"an unknown key", `"p": {§"colour": 1}`, `"colour" is not known`},
		{"a key one level too high", `"p": {§"deny": ["x"]}`, `write it in metarouter.profiles.NAME.tools`},
		{"a typo in tools", `"p": {"tools": {§"exclude": ["x"]}}`, `did you mean "deny"?`},
		{"a key twice", `"p": {"readOnly": true, §"readOnly": false}`, `"readOnly" is here twice`},
		{"servers", `"p": {§"servers": "s"}`, `"servers" must be an array of strings`},
		{"a server pattern", `"p": {"servers": ["s", §"a["]}`, `"servers[1]" must be a name or a pattern`},
		{"an allow pattern", `"p": {"tools": {"allow": [§"["]}}`, `"allow[0]" must be a name or a pattern`},
		{"a deny pattern", `"p": {"tools": {"deny": [§1]}}`, `"deny[0]" must be a string`},
		{"an ask pattern", `"p": {"tools": {"ask": [§"[]"]}}`, `"ask[0]" must be a name or a pattern`},
		{"a long pattern", `"p": {"tools": {"deny": [§"` + long + `"]}}`, `must have at most 1024 bytes`},
		{"many patterns", `"p": {"tools": {§"deny": [` + many + `"a"]}}`, `must have at most 1000 elements`},
		{"tools", `"p": {§"tools": ["x"]}`, `"tools" must be an object`},
		{"readOnly", `"p": {§"readOnly": "yes"}`, `must be true or false`},
		{"an ask word", `"p": {§"ask": "destructve"}`, `did you mean "destructive"?`},
		{"an ask that is no word", `"p": {§"ask": true}`, `"ask" must be "never", "destructive", "writes", "always", or an array`},
		{"an ask list", `"p": {"ask": [§"["]}`, `"ask[0]" must be a name or a pattern`},
		{"mode", `"p": {§"mode": "serch"}`, `did you mean "search"?`},
		{"pinned", `"p": {§"pinned": "s:t"}`, `must be an array of strings`},
		{"arguments", `"p": {§"arguments": []}`, `"arguments" must be an object`},
		{"arguments of a pattern", `"p": {"arguments": {§"s:*": "acme"}}`, `"arguments.s:*" must be an object`},
		{"a pattern of arguments", `"p": {"arguments": {§"s:[": {"a": 1}}}`, `"arguments.s:[" must be a name or a pattern`},
		{"no argument", `"p": {"arguments": {§"s:*": {}}}`, `must fix an argument`},
		{"large arguments", `"p": {§"arguments": {"*": {"a": "` + strings.Repeat("x", maxArguments) + `"}}}`, `of 64 KiB together`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after, _ := strings.Cut(tt.profile, "§")
			head := `{"mcpServers": {"s": {"command": "x"}}, "metarouter": {"profiles": {"good": {"servers": ["s"]}, `
			c := loadText(t, head+before+after+"}}}")
			column := len(head) + len(before) + 1
			said := false
			for _, p := range c.Problems {
				said = said || p.Column == column && p.Severity == severityError && p.Fix != "" && strings.Contains(p.Message, tt.says)
			}
			if !said {
				t.Errorf("want %q at column %d, got %v", tt.says, column, c.Problems)
			}
			if len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, `, so the profile "p" allows nothing`) {
				t.Errorf("nothing says that the profile allows nothing: %v", c.Problems)
			}
			expect.Deep(t, c.Router.Profiles, (map[string]Profile{"good": {Servers: []string{"s"}}, "p": noProfile()}), "profiles")
		})
	}
}

func TestProfileNames(t *testing.T) {
	for _, name := range []string{"", "Work", "a b", "a_b", "a/b", "ä", strings.Repeat("a", 33)} {
		c := anyText(t, fmt.Sprintf(`{"metarouter": {"profiles": {"a-1": {}, %q: {}}}}`, name))
		if !isRefused(c) || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, "write 1 to 32 of a-z, 0-9 and -") {
			t.Errorf("%q: problems are %v", name, c.Problems)
		}
	}
}

// TestProfilesFailClosed has mistakes about profiles as a whole.
func TestProfilesFailClosed(t *testing.T) {
	mistaken := loadText(t, `{"metarouter": {"profiles": {"default": {"colour": 1}}}}`)
	if want := (map[string]Profile{"default": noProfile()}); !reflect.DeepEqual(mistaken.Router.Profiles, want) || len(mistaken.Problems) != 1 {
		t.Errorf("a mistake in the default profile: %+v, %v", mistaken.Router.Profiles, mistaken.Problems)
	}
	all := repeat(maxProfiles, func(i int) string { return fmt.Sprintf(`"p%d": {},`, i) })
	for _, profiles := range []string{`[]`, `"work"`, `true`, `null`, `{"p": {"servers": []}, "p": {"readOnly": true}}`, `{` + all + `"more": {}, "default": {}}`} {
		if c := anyText(t, `{"metarouter": {"profiles": `+profiles+`}}`); !isRefused(c) || len(c.Problems) != 1 {
			t.Errorf("%.30s: %+v, %v", profiles, c.Router.Profiles, c.Problems)
		}
	}
	// Of many unknown keys, the last ones are not compared with the known ones. They count all the same.
	strange := repeat(maxStrange, func(i int) string { return fmt.Sprintf(`"strange%d": 1,`, i) })
	c := loadText(t, `{"metarouter": {`+strange+`"profiles": {"p": {"dney": ["x"]}}}}`)
	expect.Deep(t, c.Router.Profiles["p"], noProfile(), "after many unknown keys: %+v", c.Router.Profiles)
}

// TestProfileWarnings has values that are probably not intended: the profile is used as it is.
func TestProfileWarnings(t *testing.T) {
	for _, tt := range []struct{ name, profile, says, fix string }{
		{"a server that does not exist", `{"servers": ["github", §"jira"]}`, `has the server "jira", which does not exist`, `write the name of one in "mcpServers", or a pattern such as "files*"`},
		{"a misspelled server", `{"servers": [§"gihtub"]}`, `has the server "gihtub", which does not exist`, `write "github" instead`},
		{"a pattern of no server", `{"servers": [§"x*"]}`, `has the server "x*"`, `write the name of one in "mcpServers", or a pattern such as "files*"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, p := marked(t, `{"mcpServers": {"github": {"command": "x"}, "files": {"command": "x"}}, "metarouter": {"profiles": {"p": `+tt.profile+"}}}", tt.says)
			if p.Severity != severityWarning || p.Fix != tt.fix {
				t.Errorf("severity %s, fix %q", p.Severity, p.Fix)
			}
			if reflect.DeepEqual(c.Router.Profiles["p"], noProfile()) {
				t.Error("the profile is not used")
			}
		})
	}
}

// Patterns of servers on other nodes are no mistake while these are not there.
func TestProfileOfOtherNodes(t *testing.T) {
	c := loadText(t, `{"metarouter": {"profiles": {"p": {"servers": ["gpu@box", "*@*"]}}}}`)
	if len(c.Problems) > 0 || len(c.Router.Profiles["p"].Servers) != 2 {
		t.Errorf("%v, %+v", c.Problems, c.Router.Profiles["p"])
	}
}

// TestMergeProfiles has a later file replace single profiles.
func TestMergeProfiles(t *testing.T) {
	c := merged(t,
		`{"metarouter": {"profiles": {"a": {"servers": ["s"]}, "b": {"servers": ["gone"], "readOnly": true}}}}`,
		`{"mcpServers": {"s": {"command": "x"}}, "metarouter": {"profiles": {"b": {"ask": "always"}, "c": {}}}}`)
	c2, err := load([]string{"/1/a.json", "/2/b.json"}, fakeWorld(map[string]string{
		"/1/a.json": `{"metarouter": {"profiles": {"a": {"servers": ["gone"]}}}}`,
		"/2/b.json": `{"metarouter": {"profiles": {"a": true}}}`,
	}, nil))
	if err != nil || len(c2.Problems) != 1 || !reflect.DeepEqual(c2.Router.Profiles["a"], noProfile()) {
		t.Errorf("a later file with a mistake: %+v, %v", c2.Router.Profiles, c2.Problems)
	}
	want := map[string]Profile{"a": {Servers: []string{"s"}}, "b": {Ask: "always"}, "c": {}}
	expect.Deep(t, c.Router.Profiles, want)
}

// An entry denies a tool by its own name, and by those that clients show.
func TestDenyAsListed(t *testing.T) {
	s := only(t, `{"mcpServers": {"files": {"command": "/x", "tools": {"deny": ["files__write_*", "files:move", "x__y", "delete"]}}}}`)
	expect.List(t, s.Tools.Deny, []string{"files__write_*", "files:move", "x__y", "delete", "write_*", "move"}, "denied")
}
