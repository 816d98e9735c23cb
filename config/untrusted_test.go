package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// An edit is compared with the approved text as both are written: nothing of it is expanded.
func TestUntrusted(t *testing.T) {
	t.Setenv("K", "the value")
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, ".mcp.json")
	untrusted := func(text string) *Untrusted {
		t.Helper()
		write(t, file, text)
		c, err := LoadText(file)
		if err != nil {
			t.Fatal(err)
		}
		u, ok := errors.AsType[*Untrusted](c.Trusted(data))
		if !ok {
			t.Fatalf("it is trusted: %s", text)
		}
		return u
	}
	u := untrusted(`{"mcpServers": {"a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "x"}, "c": {"url": "u"}}}`)
	if want := file + " is not trusted: it was found in this folder, and what it says runs commands"; u.Error() != want {
		t.Errorf("got %s", u)
	}
	if err := u.Text.Trust(data); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x", "env": {"K": "the value"}}, "b": {"command": "x"}, "c": {"url": "u"}}}`:                             "edited: a",
		`{"mcpServers": {"a": {"command": "x", "env": {"K": "${K}"}}, "c": {"url": "${K}"}, "d": {"url": "u"}}, "metarouter": {"mode": "direct"}}`: `added: d; removed: b; edited: c; edited: the object "metarouter"`,
		`{"servers": {"c": {"url": "u"}, "a": {"env": {"K": "${K}"}, "command": "x"}, "b": {"command": "x"}}}`:                                     "",
		`{"mcpServers": {"c": {"url": "u"}, "a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "y"}, "b": {"command": "x"}}}`:           "edited: b",
		`{}`: "removed: a, b, c",
		`{"a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "x"}, "c": {"url": "u"}, "metarouter": {}, "x; added: y": {}}`:                                                                  `added: "x; added: y"; edited: the object "metarouter"`,
		`{"mcpServers": {"` + strings.Repeat("ä", 9999) + `": {}, "1": {}, "2": {}, "3": {}, "4": {}, "5": {}, "a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "x"}, "c": {"url": "u"}}}`: "added: 1, 2, 3, 4, 5 and 1 more",
	} {
		how := ""
		if want != "" {
			how = " (" + want + ")"
		}
		if got, want := untrusted(text).Error(), file+" is not trusted: it was edited since you approved it"+how; got != want {
			t.Errorf("%.80s:\ngot  %s\nwant %s", text, got, want)
		}
	}

	// What is kept of a file with very long names is bounded. The approval counts all the same.
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"%s%d": {}`, strings.Repeat("x", 1000), i))
	}
	text := `{"mcpServers": {` + strings.Join(many, ",") + `}}`
	u = untrusted(text)
	if err := u.Text.Trust(data); err != nil {
		t.Fatal(err)
	}
	if err := u.Text.Trusted(data); err != nil {
		t.Error(err)
	}
	if got := untrusted(`{}`); !got.Before || len(got.Removed) > 0 {
		t.Errorf("got %v", got)
	}
}
