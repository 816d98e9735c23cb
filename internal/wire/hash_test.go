package wire

import (
	"encoding/json"
	"hash/maphash"
	"strings"
	"testing"
)

func TestHash(t *testing.T) {
	schema := `{"type":"object","properties":{"path":{"type":"string","minLength":1},"tags":{"enum":["a","b",null,true]}},"required":["path"]}`
	seed := maphash.MakeSeed()
	key := func(schema string) uint64 {
		if !json.Valid([]byte(schema)) {
			t.Fatalf("invalid: %s", schema)
		}
		return Hash(seed, []byte(schema))
	}
	deep := strings.Repeat(`{"items":`, 3*maxHashDepth)
	end := strings.Repeat(`}`, 3*maxHashDepth)
	for _, test := range []struct {
		what, schema string
		same         bool
	}{
		{"itself", schema, true},
		{"another order of members", `{"required":["path"],"properties":{"tags":{"enum":["a","b",null,true]},"path":{"minLength":1,"type":"string"}},"type":"object"}`, true},
		{"spaces, escapes, and forms of numbers", "\n" + strings.NewReplacer(":", " :\t", `"path"`, `"p\u0061th"`, "1", "1.0").Replace(schema) + " ", true},
		{"another order of elements", strings.Replace(schema, `"a","b"`, `"b","a"`, 1), false},
		{"another number", strings.Replace(schema, "1", "2", 1), false},
		{"a number as text", strings.Replace(schema, "1", `"1"`, 1), false},
		{"another literal", strings.Replace(schema, "true", "false", 1), false},
		{"members exchanged", strings.NewReplacer(`"path":{`, `"tags":{`, `"tags":{`, `"path":{`).Replace(schema), false},
		{"one value more", strings.Replace(schema, `["path"]`, `["path","tags"]`, 1), false},
		{"an object in place of an array", strings.Replace(schema, `["path"]`, `{"path":1}`, 1), false},
		{"nothing", `{}`, false},
		{"very deep", deep + "1" + end, false},
	} {
		if got := key(test.schema) == key(schema); got != test.same {
			t.Errorf("%s: equal is %v", test.what, got)
		}
	}
	if key(deep+"1"+end) == key(deep+"2"+end) {
		t.Error("what is very deep does not count")
	}
}
