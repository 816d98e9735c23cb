package secret

import (
	"strings"
	"testing"
)

// Secrets in sentences are hidden, and sentences about secrets stay readable.
func TestHideSpoken(t *testing.T) {
	for text, want := range map[string]string{
		"log in with password hunter2":                            "log in with password …",
		"log in as bob, password: swordfish":                      "log in as bob, password: …",
		"the password is swordfish, open the door":                "the password is … open the door",
		`set his password to "correct horse battery" today`:       `set his password to … … … today`,
		"melde dich mit Passwort geheim an":                       "melde dich mit Passwort … an",
		"密码是abc123":                                               "密码…",
		"use my api key Zx81kq to list users":                     "use my api key … to list users",
		"call it with token ghp_abcdefghijklmnop0123456789":       "call it with …",
		"call it with the token abc-123-xyz please":               "call it with the token … please",
		"open https://me:mine77@example.org/a":                    "open https://…@example.org/a",
		"export GITHUB_TOKEN=abc123 and push":                     "export GITHUB_TOKEN=… and push",
		"curl -H 'Authorization: Bearer abcdefgh12345' localhost": "curl -H 'Authorization: …' localhost",
		"pin is 4711":                        "pin is …",
		"look up sk0123abcd4567EFGHijklmnop": "look up …",
		"reset the password of bob":          "reset the password of bob",
		"open the password manager":          "open the password manager",
		"count the tokens of this text":      "count the tokens of this text",
		"read the  file\nsrc/main.go":        "read the file src/main.go",
		"press the key enter":                "press the key enter",
		"":                                   "",
	} {
		if got := HideSpoken(text, "…"); got != want {
			t.Errorf("%q is kept as %q, want %q", text, got, want)
		}
	}
}

func FuzzHideSpoken(f *testing.F) {
	f.Add("the password is 'a b")
	f.Add("password \"")
	f.Add("token: ' key")
	f.Fuzz(func(t *testing.T, text string) {
		if got := HideSpoken(text, "…"); strings.ContainsAny(got, "\n\t") {
			t.Errorf("%q is kept as %q", text, got)
		}
		const known = "zq9-Secret-77x"
		if got := HideSpoken(strings.ToValidUTF8(text, "")+" . the password is "+known, "…"); strings.Contains(got, known) {
			t.Errorf("%q is kept as %q", text, got)
		}
	})
}
