package config

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Editors show a description as a hover text, without its surroundings: each must be
// made of full sentences.
func TestSchemaDescriptionsAreSentences(t *testing.T) {
	var schema any
	expect.OK(t, json.Unmarshal(Schema(), &schema))
	all := descriptions("", schema)
	for place, text := range all {
		if !sentence.MatchString(text) || len(strings.Fields(text)) < 4 {
			t.Errorf("the description of %s is not a sentence that begins with a capital, ends with a period and has at least four words: %q", place, text)
		}
	}
	if len(all) < 100 {
		t.Errorf("there are only %d descriptions", len(all))
	}
}

var sentence = regexp.MustCompile(`^[A-Z].*\.$`)

// descriptions returns the texts under "description" in a schema, by their JSON pointers.
func descriptions(place string, value any) map[string]string {
	all := make(map[string]string)
	add := func(key string, inner any) {
		for k, v := range descriptions(place+"/"+key, inner) {
			all[k] = v
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if text, ok := inner.(string); ok && key == "description" {
				all[place] = text
			}
			add(key, inner)
		}
	case []any:
		for i, inner := range value {
			add(strconv.Itoa(i), inner)
		}
	}
	return all
}
