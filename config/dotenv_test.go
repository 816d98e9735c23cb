package config

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestParse(t *testing.T) {
	got, err := parseEnvFile("\ufeff# comment\r\n\r\nA=1\r\nexport B = two words # comment\nC=\nD=\"a\\n\\\"b\\\" # c\" # d\nE='$x \\n'\nF=\"l1\nl2\"\n  G=a#b\nH=#c\nI=x=y\nJ.K=1\nL=\"\"")
	expect.OK(t, err)
	want := map[string]string{
		"A": "1", "B": "two words", "C": "", "D": "a\n\"b\" # c", "E": `$x \n`, "F": "l1\nl2",
		"G": "a#b", "H": "", "I": "x=y", "J.K": "1", "L": "",
	}
	expect.Deep(t, got, want)
	for text, says := range map[string]string{
		"A=1\nsk-secret":     "line 2 is not",
		"A='sk-secret":       "line 1 has a quote",
		"\nA=\"sk\\\"secret": "line 2 has a quote",
		"A='1' sk-secret":    "line 1 has text",
		"1A=sk-secret":       "line 1 is not",
	} {
		if _, err := parseEnvFile(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sk") {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}
