package reference

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "LIKE": "${A}"}
	for _, tt := range []struct {
		in, want       string
		unset, secrets []string
		endless        []string
	}{
		{in: "plain", want: "plain"},
		{in: "${A}${A}", want: "11"},
		{in: "x${env:A}y", want: "x1y"},
		{in: "${A:-d}", want: "1"},
		{in: "${NO:-d}", want: "d"},
		{in: "${env:NO:-d}", want: "d"},
		{in: "${NO:-}", want: ""},
		{in: "${EMPTY}", want: ""},
		{in: "${EMPTY:-d}", want: ""},
		{in: "${NO:-http://x:1}", want: "http://x:1"},
		{in: "${NO:-${A}}", want: "1"},
		{in: "${NO:-a\nb}", want: "a\nb"},
		{in: "${A:-${NO}}", want: "1"},
		{in: "${NO:-${NEITHER}}", want: "${NEITHER}", unset: []string{"NEITHER"}},
		{in: "${LIKE}", want: "${A}"},
		{in: "$A $$ ${", want: "$A $$ ${"},
		{in: "${x%pat} ${#A} ${1A} ${} ${A", want: "${x%pat} ${#A} ${1A} ${} ${A"},
		{in: "${x%${A}}", want: "${x%1}"},
		{in: "${NO} ${NEITHER} ${NO}", want: "${NO} ${NEITHER} ${NO}", unset: []string{"NO", "NEITHER", "NO"}},
		{in: "${input:key}", want: "${input:key}", secrets: []string{"input:key"}},
		{in: "Bearer ${keyring:GH} ${A}", want: "Bearer ${keyring:GH} 1", secrets: []string{"keyring:GH"}},
		{in: "${NO:-${keyring:GH}}", want: "${keyring:GH}", secrets: []string{"keyring:GH"}},
		{in: "${A:-${keyring:GH}}", want: "1"},
		{in: "${cmd:a ${A} | awk '{print $1}'}${A}", want: "${cmd:a ${A} | awk '{print $1}'}1", secrets: []string{"cmd:a ${A} | awk '{print $1}'"}},
		{in: "${op://v/i/f}", want: "${op://v/i/f}", secrets: []string{"op://v/i/f"}},
		{in: "${file:${A}/x}", want: "${file:${A}/x}", secrets: []string{"file:${A}/x"}},
		{in: "${LIKE} ${file:-d}${keyring:-e}", want: "${A} de"},
		{in: "${cmd:echo '{'} ${A}", want: "${cmd:echo '{'} 1", endless: []string{"cmd:echo '{'} ${A}"}},
		{in: "${command:x}", want: "${command:x}"},
	} {
		got, x := recorded(tt.in, vars)
		expect.Equal(t, got, tt.want, "%q", tt.in)
		expect.Deep(t, x, (record{tt.unset, tt.secrets, tt.endless}), "%q: found", tt.in)
	}
}

// A record has the findings of an expansion.
type record struct {
	unset, secrets []string
	endless        []string
}

func recorded(s string, vars map[string]string) (expanded string, r record) {
	return Rules{
		Lookup:  func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		Unset:   func(name string) { r.unset = append(r.unset, name) },
		Refer:   func(text string) { r.secrets = append(r.secrets, text) },
		Endless: func(text string) { r.endless = append(r.endless, text) },
	}.Expand(s), r
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"${A}", "${A:-${B}}", "${env:A}", "${input:x}", "${x%${A}}", "${${${", "${A:-}}", "${cmd:{${x}}}", "${keyring:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, found := recorded(s, nil)
		if !strings.Contains(s, "${") && got != s {
			t.Errorf("%q became %q", s, got)
		}
		for _, name := range found.unset {
			expect.Contains(t, s, name)
		}
	})
}
