package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestClassification(t *testing.T) {
	yes, no := true, false
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := loadText(t, `{"mcpServers": {"s": {"command": "c"}}, "metarouter": {"classification": `+tt.text+`}}`)
			expect.List(t, c.Problems, nil, "problems")
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

		{"fallback", `{"categories": [{"name": "a"}], "fallback": §"b"}`, `"fallback" is "b", which is not a category`},
		{"fallback before", `{"fallback_category": §"b", "categories": [{"name": "a"}]}`, `"fallback_category" is "b"`},
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
		`{"mcpServers": {"s": {"command": "c"}}, "metarouter": {"classification": {"categories": [{"name": "x"}, {"name": "y"}], "threshold": 0.9}}}`,
		`{"metarouter": {"classification": {"categories": [{"name": "z"}], "fallback": "z"}}}`)
	k := c.Router.Classification
	expect.Equal(t, fmt.Sprint(k.Categories[0].Name, len(k.Categories), k.Threshold, k.Fallback), "z1 0.9z")
}
