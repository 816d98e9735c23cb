package commandline

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// All finds the commands that wrappers and shells run, and ends when the caller ends it.
func TestAll(t *testing.T) {
	for line, want := range map[string]string{ // words are separated by |
		"node|server.js":             "node",
		"env|-u|X|A=b|node|x":        "env node",
		"sudo|nohup|nice|node":       "sudo nohup nice node",
		"npx|-y|@a/b@1.2|/dir":       "npx @a/b@1.2",
		"sh|-c|cd /x && A=1 'my x'":  "sh cd my x",
		"cmd.exe|/c|npx -y a; b & c": "cmd.exe npx a b c",
		"sh|-c|sh -c 'node x'":       "sh sh node",
		"env":                        "env",
	} {
		var got, first []string
		words := strings.Split(line, "|")
		for command := range All(words[0], words[1:]) {
			got = append(got, command)
		}
		for command := range All(words[0], words[1:]) {
			first = append(first, command)
			break
		}
		if strings.Join(got, " ") != want || !slices.Equal(first, words[:1]) {
			t.Errorf("%s: %q and first %q, want %s", line, got, first, want)
		}
	}
}

// Words are quoted as the shell of the system reads them.
func TestQuote(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the quotes are of Unix")
	}
	for word, want := range map[string]string{"": "''", "a": "a", "/a b": "'/a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "a;b": "'a;b'", "é-1_./@:%+=,": "é-1_./@:%+=,", "*": "'*'"} {
		expect.Equal(t, Quote(word), want, "%q is quoted as", word)
	}
}
