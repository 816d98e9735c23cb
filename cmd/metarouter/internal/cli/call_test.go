package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestSplitPairs(t *testing.T) {
	for _, test := range []struct{ args, words, pairs []string }{
		{[]string{"read a file", "path=/x"}, []string{"read a file"}, []string{"path=/x"}},
		{[]string{"convert", "value=5", "to", "miles", "from-unit="}, []string{"convert", "to", "miles"}, []string{"value=5", "from-unit="}},
		{[]string{"x=5"}, []string{"x=5"}, nil},
		{[]string{"open", "https://example.com/?a=b", "5=5", "with a=b", "==", "="}, []string{"open", "https://example.com/?a=b", "5=5", "with a=b", "==", "="}, nil},
	} {
		task, pairs := splitPairs(test.args)
		if task != strings.Join(test.words, " ") || !slices.Equal(pairs, test.pairs) {
			t.Errorf("%q: task %q, pairs %q", test.args, task, pairs)
		}
	}
}

// --input is any JSON value, or names a file with one.
func TestReadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "input.json")
	expect.OK(t, os.WriteFile(file, []byte(`[1]`), 0o600))
	long := filepath.Join(t.TempDir(), "long.json")
	expect.OK(t, os.WriteFile(long, make([]byte, admin.MaxScriptInput+1), 0o600))
	for raw, want := range map[string]string{
		"": "", `{"a":1}`: `{"a":1}`, "5": "5", "null": "null", "@" + file: "[1]",
		"{a: 1}":                    "--input is not JSON: character 2: invalid character 'a'",
		"@" + file + "x":            "--input: there is no file",
		"@" + long:                  "--input: " + long + " has more than 1024 KiB",
		"@" + filepath.Dir(file):    "--input: ",
		strings.Repeat("[", 100000): "--input is not JSON",
	} {
		text, err := readJSON(nil, "--input", "JSON", raw, admin.MaxScriptInput)
		said := string(text)
		if err != nil {
			said = err.Error()
		}
		if !strings.HasPrefix(said, want) || (err != nil) != strings.HasPrefix(want, "--input") {
			t.Errorf("%.40q: %.100q, want %q", raw, said, want)
		}
	}
}

// A failure has its place, and the calls that took effect before.
func TestFailureOf(t *testing.T) {
	failed := script.Outcome{Err: &script.Error{Name: "TypeError", Message: "no", Line: 3, Column: 7}, Calls: []script.Made{{Call: script.Call{Tool: "a:x", Line: 1}}}}
	expect.Equal(t, failureOf("f.js", failed), "f.js:3:7: TypeError: no\nNo call succeeded that may change something.")
	failed.Calls = append(failed.Calls, script.Made{Call: script.Call{Tool: "a:y", Line: 2}, OK: true}, script.Made{Call: script.Call{Tool: "a:z", Line: 2}, OK: true, Reads: true})
	failed.Err.Line, failed.Err.Column = 0, 0
	expect.Equal(t, failureOf("f.js", failed), "f.js: TypeError: no\nThese calls took effect:\nline 2: a:y")
}
