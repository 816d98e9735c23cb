package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestParseObject(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          `{}`,
		` {"a":1} `:                   ` {"a":1} `,
		"{\n\"a\":\r\n[1,\t2]}":       `{"a":[1,2]}`,
		`{"a":{"b":1,"b":2},"b":1}`:   `{"a":{"b":1,"b":2},"b":1}`,
		``:                            ``,
		`{"a": "\ud800\ud83d\ude00"}`: `{"a": "\ufffd\ud83d\ude00"}`,
		"{\"a\":\"\xff\"}":            "not UTF-8",
		`{"\ud800":1,"\udfff":1}`:     "twice",
		`{"a":1,"a":2}`:               "twice",
		`{"a":1,"\u0061":2}`:          "twice",
		`{"":1,"":2}`:                 "twice",
		`{"a":1},"name":"x"`:          "unexpected bytes",
		`{"a":1}{"b":2}`:              "unexpected bytes",
		`{"a":1}}`:                    "unexpected bytes",
		`{"a":1`:                      "expected a comma",
		`{"a":[1}`:                    "expected a comma",
		"{\"a\":\"\n\"}":              "control character",
		`[1]`:                         "not an object",
		`null`:                        "not an object",
		`"{}"`:                        "not an object",
		`{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`:                `{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`,
		`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`:              "nested too deep",
		`{"k0":1,"k1":1,"k2":1,"k3":1,"k4":1,"k5":1,"k6":1,"k7":1,"k8":1,"k9":1,"k9":1}`: "twice",
		`{"k0":1,"k1":1,"k2":1,"k3":1,"k4":1,"k5":1,"k6":1,"k7":1,"k8":1,"k9":1,"k0":1}`: "twice",
	} {
		object, err := ParseObject([]byte(text))
		switch {
		case err != nil && !strings.Contains(err.Error(), want), err == nil && string(object.Bytes()) != want:
			t.Errorf("%s: %s, %v; want %s", text, object.Bytes(), err, want)
		case err != nil && object.Bytes() != nil:
			t.Errorf("%s: %v, and the object %s", text, err, object.Bytes())
		}
	}
}

// FuzzMessages looks for a key outside of its place, or twice, in messages with any parameters.
func FuzzMessages(f *testing.F) {
	for _, params := range []string{`{"a":1}`, `{"a":[0]},"name":"secret"`, `{}},"method":"x"`, `{}},"id":17,"x":{}`, "{\"a\":\n1}", `{"name":1,"name":2}`, `{"a":1}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"x"}`, `{"\u006eame":1,"name":2}`} {
		f.Add("tools/call", []byte(params))
	}
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		object, err := ParseObject(params)
		if err != nil {
			return
		}
		line := AppendRequest(nil, 7, method, object)
		if n := strings.Count(string(line), "\n"); n != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("%d lines: %q", n, line)
		}
		if len(params) == 0 {
			return
		}
		checkKeys(t, line, "jsonrpc", "id", "method", "params")
		var message struct {
			ID     int64
			Params json.RawMessage
		}
		if err := json.Unmarshal(line, &message); err != nil || message.ID != 7 || !json.Valid(message.Params) {
			t.Fatalf("%s: %v", line, err)
		}
		seen := map[string]bool{}
		for _, key := range keysOf(t, message.Params) {
			if seen[key] {
				t.Fatalf("%s: %q stands there twice", line, key)
			}
			seen[key] = true
		}
		checkKeys(t, AppendNotification(nil, method, object), "jsonrpc", "method", "params")
	})
}

// checkKeys checks that an object has these keys, in order.
func checkKeys(t *testing.T, object []byte, want ...string) {
	t.Helper()
	if got := keysOf(t, object); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("%s has the keys %q, want %q", object, got, want)
	}
}

// keysOf returns the keys of an object, as encoding/json reads them.
func keysOf(t *testing.T, object []byte) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(object)))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		t.Fatalf("%s: %v, %v", object, first, err)
	}
	for d.More() {
		key, err := d.Token()
		expect.OK(t, err, "%s", object)
		keys = append(keys, key.(string))
		var value json.RawMessage
		expect.OK(t, d.Decode(&value), "%s", object)
	}
	return keys
}
