package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "LIKE": "${A}"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for _, tt := range []struct {
		in, want       string
		unset, secrets []string
		wrong          []string
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
		{in: "${NO} ${NEITHER} ${NO}", want: "${NO} ${NEITHER} ${NO}", unset: []string{"NO", "NEITHER"}},
		{in: "${input:key}", want: "${input:key}", secrets: []string{"input:key"}},
		{in: "Bearer ${keyring:GH} ${A}", want: "Bearer ${keyring:GH} 1", secrets: []string{"keyring:GH"}},
		{in: "${NO:-${keyring:GH}}", want: "${keyring:GH}", secrets: []string{"keyring:GH"}},
		{in: "${A:-${keyring:GH}}", want: "1"},
		{in: "${cmd:a ${A} | awk '{print $1}'}${A}", want: "${cmd:a ${A} | awk '{print $1}'}1", secrets: []string{"cmd:a ${A} | awk '{print $1}'"}},
		{in: "${op://v/i/f}", want: "${op://v/i/f}", secrets: []string{"op://v/i/f"}},
		{in: "${file:${A}/x}", want: "${file:${A}/x}", secrets: []string{"file:${A}/x"}},
		{in: "${LIKE} ${file:-d}${keyring:-e}", want: "${A} de"},
		{in: "${cmd:echo '{'} ${A}", want: "${cmd:echo '{'} 1", wrong: []string{"the reference ${cmd:… has no end; close it with }, and write as many { as } into a command"}},
		{in: "${command:x}", want: "${command:x}"},
	} {
		var missing variables
		var secrets []string
		if got := expand(tt.in, lookup, func(text string, _ *variables) { secrets = append(secrets, text) }, &missing); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
		if !slices.Equal(secrets, tt.secrets) {
			t.Errorf("%q: secrets %q, want %q", tt.in, secrets, tt.secrets)
		}
		if want := (variables{unset: tt.unset, wrong: tt.wrong}); !reflect.DeepEqual(missing, want) {
			t.Errorf("%q: missing %+v, want %+v", tt.in, missing, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"${A}", "${A:-${B}}", "${env:A}", "${input:x}", "${x%${A}}", "${${${", "${A:-}}", "${cmd:{${x}}}", "${keyring:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var missing variables
		got := expand(s, func(string) (string, bool) { return "", false }, func(string, *variables) {}, &missing)
		if !strings.Contains(s, "${") && got != s {
			t.Errorf("%q became %q", s, got)
		}
		for _, name := range missing.unset {
			if !strings.Contains(s, name) {
				t.Errorf("%q is not in %q", name, s)
			}
		}
	})
}

func TestNearest(t *testing.T) {
	known := []string{"args", "capabilities", "command", "cwd", "disabled", "env", "envFile", "retry", "timeout", "tools", "type", "url"}
	for key, want := range map[string]string{
		"comand": "command", "Command": "command", "commnad": "command", "cmd": "command",
		"arg": "args", "agrs": "args", "arguments": "args", "enviroment": "env", "environment": "env",
		"envfile": "envFile", "disable": "disabled", "URL": "url", "uri": "url", "capabilites": "capabilities",
		"autoApprove": "", "alwaysAllow": "", "trust": "", "headersHelper": "", "oauth": "", "dev": "", "sandbox": "",
		"description": "", "source": "", "settings": "", "gallery": "", "version": "", "name": "", "tags": "", "roots": "",
		"protocolEra": "", "inputs": "", "_comment": "", "//": "", "icon": "", "": "",
	} {
		if got, _ := nearest(key, known); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}
