package execute

import "testing"

func TestMerge(t *testing.T) {
	for _, test := range []struct{ theirs, ours, want string }{
		{`{}`, `{"a":1}`, `{"a":1}`},
		{`{"x":[1], "a":2,"y":"\n"}`, `{"a":1,"b":{}}`, `{"a":1,"b":{},"x":[1],"y":"\n"}`},
		{`{"a":2,"\u0061":3,"q\"":4}`, `{"a":1}`, `{"a":1,"q\"":4}`},
	} {
		if got := string(merge([]byte(test.theirs), []byte(test.ours))); got != test.want {
			t.Errorf("%s and %s are %s, want %s", test.theirs, test.ours, got, test.want)
		}
	}
}
