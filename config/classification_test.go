package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestClassification(t *testing.T) {
	yes, no := true, false
	outside := func(change func(*Outside)) Classification {
		o := Outside{
			ClassifyTool: "classify_text", ListTool: "list_categories", Timeout: 5 * time.Second,
			MaxRetries: 3, CacheCategories: true, RefreshInterval: 5 * time.Minute,
		}
		change(&o)
		return Classification{Model: "default", Threshold: 0.6, MaxText: 8192, Outside: &o}
	}
	for _, tt := range []struct {
		name, text string
		want       Classification
	}{
		{"defaults", `{}`, Classification{Model: "default", Threshold: 0.6, MaxText: 8192}},
		{"all of ours", `{"categories": [
				{"name": "a", "description": "d", "keywords": ["k"], "examples": ["e", "f"], "system_prompt": "s", "model": "m", "use_reasoning": true,
					"rules": [{"min_words": 3, "max_words": 4, "use_reasoning": false,}]},
				{"name": "b"}],
			"rules": [{"categories": ["a", "b"], "confidence_below": 0.5, "patterns": ["^x", "\\d+"], "model": "n"}],
			"model": "x", "use_reasoning": true, "threshold": 0, "fallback": "b", "max_text": 9}`,
			Classification{
				Categories: []Category{
					{Name: "a", Description: "d", SystemPrompt: "s", Keywords: []string{"k"}, Examples: []string{"e", "f"}, Model: "m", UseReasoning: &yes,
						Rules: []Rule{{MinWords: 3, MaxWords: 4, UseReasoning: &no}}},
					{Name: "b"},
				},
				Rules: []Rule{{Categories: []string{"a", "b"}, ConfidenceBelow: 0.5, Patterns: []string{"^x", `\d+`}, Model: "n"}},
				Model: "x", UseReasoning: true, Fallback: "b", MaxText: 9,
			}},
		{"their words for the same", `{"confidence_threshold": 0.7, "fallback_category": "other"}`,
			Classification{Model: "default", Threshold: 0.7, Fallback: "other", MaxText: 8192}},
		{"outside by name", `{"type": "mcp", "server": "s"}`, outside(func(o *Outside) { o.Server = "s" })},
		{"outside by url", `{"type": "mcp", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "tools": {"classify": "c", "list_categories": "l"},
			"timeout": "1s", "max_retries": 0, "cache_categories": false, "refresh_interval": "1m", "num_categories": 14}`,
			outside(func(o *Outside) {
				*o = Outside{
					URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer sk-secret"},
					ClassifyTool: "c", ListTool: "l", Timeout: time.Second, RefreshInterval: time.Minute, NumCategories: 14,
				}
			})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := loadText(t, `{"mcpServers": {"s": {"command": "c"}}, "metarouter": {"classification": `+tt.text+`}}`)
			if len(c.Problems) > 0 {
				t.Errorf("problems: %v", c.Problems)
			}
			expect.Deep(t, c.Router.Classification, &tt.want)
		})
	}
}

// The place of the problem, which refuses the file, is marked with § in the text.
func TestClassificationProblems(t *testing.T) {
	categories := func(s string) string {
		return "{\n\t\"categories\": [{\"name\": \"a\"}, " + s + ", {\"name\": \"z\"}]\n}"
	}
	rules := func(s string) string {
		return "{\n\t\"rules\": [{\"model\": \"a\"}, " + s + ", {\"model\": \"z\"}]\n}"
	}
	outside := func(s string) string { return `{"type": "mcp", ` + s + `}` }
	for _, tt := range []struct {
		name, text, says string
	}{
		{"no name", categories(`§{"keywords": ["k"]}`), `write "name": "…"`},
		{"empty name", categories(`{§"name": " "}`), `must not be empty`},
		{"a number for a name", categories(`{§"name": 1}`), `must be a string; put it in quotes`},
		{"twice", categories(`{§"name": "a", "model": "m"}`), `there is a category "a" already`},
		{"a string", categories(`§"b"`), `the category must be an object; write {"name": "…"}`},
		{"no list", `{§"categories": {"name": "a"}}`, `must be an array of objects; write [{"name": "…"}]`},
		{"a keyword", categories(`{"name": "b", "keywords": ["k", §1]}`), `"keywords[1]" must be a string`},
		{"key of a category", categories(`{"name": "b", §"keyword": []}`), `did you mean "keywords"?`},
		{"rule of a category", categories(`{"name": "b", "rules": [{"model": "m", §"min_words": -1}]}`), `at least 0`},

		{"fallback", `{"categories": [{"name": "a"}], §"fallback": "b"}`, `"fallback" is "b", which is not a category`},
		{"fallback before", `{§"fallback_category": "b", "categories": [{"name": "a"}]}`, `"fallback_category" is "b"`},
		{"threshold", `{§"threshold": 1.5}`, `a number from 0 to 1`},
		{"max_text", `{§"max_text": 0}`, `at least 1`},
		{"key", `{§"treshold": 0.5}`, `did you mean "threshold"?`},
		{"no object", `§7`, `"classification" must be an object`},

		{"pattern", rules(`{"patterns": ["ok", §"("], "model": "b"}`), `"patterns[1]" must be a regular expression (missing closing ))`},
		{"rule's category", `{"categories": [{"name": "a"}], "rules": [{"categories": ["a", §"b"], "model": "m"}]}`, `is "b", which is not a category`},
		{"sets nothing", rules(`§{"min_words": 5}`), `the rule sets nothing; write "model"`},
		{"never applies", rules(`§{"min_words": 5, "max_words": 4, "model": "b"}`), `not above "max_words"`},
		{"misspelt condition", rules(`{§"min_word": 5, "model": "b"}`), `did you mean "min_words"?`},
		{"confidence", rules(`{§"confidence_below": "0.5", "model": "b"}`), `a number from 0 to 1`},

		{"type", `{§"type": "http", "url": "https://x"}`, `must be "mcp"; leave it out`},
		{"no type", `§{"url": "https://x"}`, `add "type": "mcp"`},
		{"neither", `§{"type": "mcp"}`, `can't be reached; write "server"`},
		{"both", `§` + outside(`"server": "s", "url": "https://x"`), `both "server" and "url"; remove one`},
		{"url", outside(`§"url": "ws://x/sk-secret"`), `write "https://host/path"`},
		{"half a url", outside(`§"url": "example.com"`), `write "https://host/path"`},
		{"unset", outside(`"url": "https://x", "headers": {"A": "${TOKEN}", §"B": "${NOPE}"}`), `"headers.B" has no value: the variable NOPE is not set`},
		{"timeout", outside(`"url": "https://x", §"timeout": 0`), `must be longer than 0`},
		{"tools", outside(`"url": "https://x", "tools": {§"classify": ""}`), `must not be empty`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := `{"metarouter": {"classification": ` + tt.text + `}}`
			if strings.HasPrefix(tt.text, "§") {
				text = `{"metarouter": {§"classification": ` + strings.TrimPrefix(tt.text, "§") + `}}`
			}
			if c, _ := marked(t, text, tt.says); !isRefused(c) {
				t.Error("it is used")
			}
		})
	}
}

func TestMergeClassification(t *testing.T) {
	c := merged(t,
		`{"mcpServers": {"s": {"command": "c"}}, "metarouter": {"classification": {"categories": [{"name": "x"}, {"name": "y"}], "threshold": 0.9, "type": "mcp", "server": "s"}}}`,
		`{"metarouter": {"classification": {"categories": [{"name": "z"}], "fallback": "z", "timeout": "1s"}}}`)
	k := c.Router.Classification
	expect.Equal(t, fmt.Sprint(k.Categories[0].Name, len(k.Categories), k.Threshold, k.Fallback, k.Outside.Server, k.Outside.Timeout), "z1 0.9zs1s")
}

// An outside server that is an entry which can't be started is asked all the same,
// since entries are live, but it is said.
func TestClassificationServer(t *testing.T) {
	for _, tt := range []struct{ entry, says string }{
		{`"s": {"command": "c"}`, ""},
		{`"S": {"command": "c"}`, `"server" is "s", which is not a server; write the name of one in "mcpServers"`},
		{`"s": {"command": "c", "disabled": true}`, `"server" is "s", which is disabled`},
		{`"s": {"command": "metarouter", "args": ["serve"]}`, `"server" is "s", which would start a router`},
	} {
		c := loadText(t, `{"mcpServers": {`+tt.entry+`}, "metarouter": {"classification": {"type": "mcp",
"server": "s"}}}`)
		var said []string
		for _, p := range c.Problems {
			if p.Line == 2 && p.Column == 1 && p.Server == "" {
				said = append(said, p.Message)
			}
		}
		if len(said) != min(len(tt.says), 1) || len(said) == 1 && !strings.Contains(said[0], tt.says) {
			t.Errorf("%s: %q of %v, want %q", tt.entry, said, c.Problems, tt.says)
		}
		if o := c.Router.Classification.Outside; o == nil || o.Server != "s" {
			t.Errorf("%s: %+v", tt.entry, o)
		}
	}
}
