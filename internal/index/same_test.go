package index

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

func TestSameTool(t *testing.T) {
	schema := `{"type":"object","properties":{"path":{"type":"string","minLength":1},"tags":{"enum":["a","b",null,true]}},"required":["path"]}`
	key := func(name, schema string) uint64 {
		if !json.Valid([]byte(schema)) {
			t.Fatalf("invalid: %s", schema)
		}
		return sameTool(&registry.NormalizedTool{Server: t.Name(), Name: name, InputSchema: json.RawMessage(schema)})
	}
	deep := strings.Repeat(`{"items":`, 3*maxSameDepth)
	end := strings.Repeat(`}`, 3*maxSameDepth)
	for _, test := range []struct {
		what, name, schema string
		same               bool
	}{
		{"itself", "read", schema, true},
		{"another name", "write", schema, false},
		{"another order of members", "read", `{"required":["path"],"properties":{"tags":{"enum":["a","b",null,true]},"path":{"minLength":1,"type":"string"}},"type":"object"}`, true},
		{"spaces, escapes, and forms of numbers", "read", "\n" + strings.NewReplacer(":", " :\t", `"path"`, `"p\u0061th"`, "1", "1.0").Replace(schema) + " ", true},
		{"another order of elements", "read", strings.Replace(schema, `"a","b"`, `"b","a"`, 1), false},
		{"another number", "read", strings.Replace(schema, "1", "2", 1), false},
		{"a number as text", "read", strings.Replace(schema, "1", `"1"`, 1), false},
		{"another literal", "read", strings.Replace(schema, "true", "false", 1), false},
		{"members exchanged", "read", strings.NewReplacer(`"path":{`, `"tags":{`, `"tags":{`, `"path":{`).Replace(schema), false},
		{"one value more", "read", strings.Replace(schema, `["path"]`, `["path","tags"]`, 1), false},
		{"an object in place of an array", "read", strings.Replace(schema, `["path"]`, `{"path":1}`, 1), false},
		{"nothing", "read", `{}`, false},
		{"very deep", "read", deep + "1" + end, false},
	} {
		if got := key(test.name, test.schema) == key("read", schema); got != test.same {
			t.Errorf("%s: equal is %v", test.what, got)
		}
	}
	if key("a", deep+"1"+end) == key("a", deep+"2"+end) {
		t.Error("what is very deep does not count")
	}
}
