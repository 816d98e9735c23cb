package execute

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMerge(t *testing.T) {
	for _, test := range []struct{ theirs, ours, want string }{
		{`{}`, `{"a":1}`, `{"a":1}`},
		{`{"x":[1], "a":2,"y":"\n"}`, `{"a":1,"b":{}}`, `{"a":1,"b":{},"x":[1],"y":"\n"}`},
		{`{"a":2,"\u0061":3,"q\"":4}`, `{"a":1}`, `{"a":1,"q\"":4}`},
	} {
		expect.Equal(t, string(merge([]byte(test.theirs), []byte(test.ours))), test.want, "%s and %s", test.theirs, test.ours)
	}
}
