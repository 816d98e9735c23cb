package configfile

import (
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAdvise(t *testing.T) {
	s := Source{Paths: []string{"a b.json", "c.json"}}
	imports := func(path string) string {
		path, err := filepath.Abs(path)
		expect.OK(t, err)
		return "run: metarouter import codex --file " + path + " --write"
	}
	for text, want := range map[string]string{
		imports("c.json"):   imports("c.json"),
		imports("a b.json"): imports("a b.json"),
		"run: metarouter import codex --file /x --write":  "run: metarouter import --config 'a b.json' --config c.json codex --file /x --write",
		"run: metarouter login issues":                    "run: metarouter login issues --config 'a b.json' --config c.json",
		"run: metarouter login 'is sues'; then go":        "run: metarouter login 'is sues' --config 'a b.json' --config c.json; then go",
		"run: metarouter tools --seen --server x":         "run: metarouter tools --seen --server x --config 'a b.json' --config c.json",
		"'metarouter doctor' says what to do":             "'metarouter doctor --config 'a b.json' --config c.json' says what to do",
		"run: metarouter login x --config own.json":       "run: metarouter login x --config own.json",
		"'metarouter logins' lists all":                   "'metarouter logins' lists all",
		`run 'metarouter enable 'it'\''s' --write', or`:   `run 'metarouter enable 'it'\''s' --config 'a b.json' --config c.json --write', or`,
		`run: metarouter login "a \"b"`:                   `run: metarouter login "a \"b" --config 'a b.json' --config c.json`, // on Windows
		"metarouter disable a,b, or 'metarouter login c'": "metarouter disable a,b --config 'a b.json' --config c.json, or 'metarouter login c --config 'a b.json' --config c.json'",
		"run: metarouter secret set A --from 'b c'":       "run: metarouter secret set A --from 'b c' --config 'a b.json' --config c.json",
		"metarouter install zed --replace":                "metarouter install zed --config 'a b.json' --config c.json --replace",
		"run: metarouter trust":                           "run: metarouter trust",
		"run: metarouter secret set NAME":                 "run: metarouter secret set NAME",
		"run 'metarouter serve --http 1.2.3.4:5'":         "run 'metarouter serve --config 'a b.json' --config c.json --http 1.2.3.4:5'",
		"metarouter checks it":                            "metarouter checks it",
	} {
		expect.Equal(t, s.Advise(text), want, "%s", text)
		expect.Equal(t, new(Source).Advise(text), text, "without --config")
	}
}

// The profile of a command goes on in the commands that have the flag.
func TestAdviseProfile(t *testing.T) {
	profile := "dev"
	s := Source{Profile: &profile}
	expect.Equal(t, s.Advise("'metarouter tools' lists all; run: metarouter doctor"), "'metarouter tools --profile dev' lists all; run: metarouter doctor", "advice")
}
