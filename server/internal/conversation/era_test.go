package conversation

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestCompleted(t *testing.T) {
	const info = `"` + MetaServer + `":{"name":"r"}`
	for result, want := range map[string]string{
		`{"content":[],"_meta":{"a":1}}`:             `{"content":[],"_meta":{"a":1,` + info + `},"resultType":"complete"}`,
		`{"_meta":{"a":{"}":"{"} } , "content":[]} `: `{"_meta":{"a":{"}":"{"} ,` + info + `} , "content":[],"resultType":"complete"} `,
		`{"content":[],"_meta":{"a":{"}":"{"} } } `:  `{"content":[],"_meta":{"a":{"}":"{"} ,` + info + `} ,"resultType":"complete"} `,
		`{"_meta":{ }}`:                         `{"_meta":{ ` + info + `},"resultType":"complete"}`,
		`{}`:                                    `{"resultType":"complete","_meta":{` + info + `}}`,
		`{"resultType":"task","_meta":{"a":1}}`: `{"resultType":"task","_meta":{"a":1,` + info + `}}`,
		`{"_meta":{"io.modelcontextprotocol/serverInfo":"mine"}}`: `{"_meta":{"io.modelcontextprotocol/serverInfo":"mine"},"resultType":"complete"}`,
		`{"_meta":1}`:                       `{"_meta":{` + info + `},"resultType":"complete"}`,
		`{"_meta":{"a":1},"_meta":{"b":1}}`: `{"_meta":{"b":1,` + info + `},"_meta":{"b":1,` + info + `},"resultType":"complete"}`,
		`[]`:                                `[]`,
	} {
		got := string(completed(json.RawMessage(result), func() json.RawMessage { return json.RawMessage(`{"name":"r"}`) }))
		expect.Equal(t, got, want, "%s", result)
	}
}
