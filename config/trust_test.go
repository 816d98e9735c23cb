package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// loaded is the file as it is now.
func loaded(t *testing.T, file string) Config {
	t.Helper()
	c, err := Load(file)
	expect.OK(t, err)
	return c
}

func trusted(t *testing.T, c Config, data string) bool {
	t.Helper()
	err := c.Text.Trusted(data)
	if err != nil && !isUntrusted(err) {
		t.Error(err)
	}
	return err == nil
}

func isUntrusted(err error) bool {
	_, ok := errors.AsType[*trustfile.Untrusted](err)
	return ok
}

func TestTrust(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	file := filepath.Join(dir, ".mcp.json")
	check := func(text string, want bool) {
		t.Helper()
		write(t, file, text)
		expect.Equal(t, trusted(t, loaded(t, file), data), want, "%s", text)
	}
	const approved = `{"mcpServers": {"a": {"command": "x", "env": {"K": "${K}", "L": "1"}}}, "metarouter": {"mode": "auto"}}`

	check(approved, false)
	expect.OK(t, loaded(t, file).Text.Trust(data))
	t.Setenv("K", "another value")
	check(approved, true)
	check("// mine\n{\"metarouter\": {\"mode\": \"auto\"},\n\"mcpServers\": {\"a\": {\"env\": {\"L\": \"\\u0031\", \"K\": \"${K}\",}, \"command\": \"x\"}}, \"theme\": \"dark\"}", true)
	check(strings.Replace(approved, `"x"`, `"y"`, 1), false)
	check(strings.Replace(approved, `auto`, `direct`, 1), false)
	check(strings.Replace(approved, `"command": "x"`, `"command": "y", "command": "x"`, 1), false)
	check(strings.Replace(approved, `"command": "x"`, `"command": "x", "args": null`, 1), false)
	check(strings.Replace(approved, `mcpServers`, `servers`, 1), false)
	check(strings.Replace(approved, `{"mcpServers"`, `{"inputs": [{"id": "K", "password": true}], "mcpServers"`, 1), false)

	const bare = `{"a": {"command": "x"}}`
	check(bare, false)
	expect.OK(t, loaded(t, file).Text.Trust(data))
	check(bare, true)
	check(`{"a": {"command": "x"}, "b": {"command": "x"}}`, false)

	copied := filepath.Join(dir, "copy.json")
	write(t, copied, bare)
	write(t, file, bare)
	if got := trusted(t, loaded(t, copied), data); got {
		t.Error("the same text elsewhere is trusted")
	}
	expect.OK(t, loaded(t, copied).Text.Trust(data))
	if got := trusted(t, loaded(t, file), data); !got {
		t.Error("one approval took another's place")
	}

	// An edit is judged by its own text, though the file has another text by then.
	write(t, file, approved)
	edit := loaded(t, file)
	write(t, file, bare)
	if trusted(t, edit, data) {
		t.Error("an edit that was undone is trusted")
	}
	expect.OK(t, edit.Text.Trust(data))
	check(bare, false)
	check(approved, true)
	write(t, file, bare)
	expect.OK(t, loaded(t, file).Text.Trust(data))

	info, err := os.Stat(filepath.Join(data, "trust.json"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("trust.json: got %v %v, want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(data, "tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	write(t, filepath.Join(data, "trust.json"), "damaged")
	if got := trusted(t, loaded(t, file), data); got {
		t.Error("damaged approvals approve")
	}
	expect.OK(t, loaded(t, file).Text.Trust(data), "damaged")
	if got := trusted(t, loaded(t, file), ""); got {
		t.Error("trusted without a data folder")
	}
	if err := loaded(t, file).Text.Trust(""); err == nil {
		t.Error("no data folder: an approval was kept somewhere")
	}
}

// Approvals that are given at the same time all count.
func TestTrustAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var all sync.WaitGroup
		var texts []Config
		for i := range 20 {
			file := filepath.Join(dir, fmt.Sprint(i, ".json"))
			write(t, file, `{"mcpServers": {}}`)
			c := loaded(t, file)
			texts = append(texts, c)
			all.Go(func() {
				if err := c.Text.Trust(filepath.Join(dir, "data")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, c := range texts {
			if !trusted(t, c, filepath.Join(dir, "data")) {
				t.Errorf("the approval of %s is lost", c.Files[0])
			}
		}
	})
}

func TestUntrusted(t *testing.T) {
	t.Setenv("K", "the value")
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, ".mcp.json")
	untrusted := func(text string) *trustfile.Untrusted {
		t.Helper()
		write(t, file, text)
		c, err := LoadText(file)
		expect.OK(t, err)
		u, ok := errors.AsType[*trustfile.Untrusted](c.Text.Trusted(data))
		if !ok {
			t.Fatalf("it is trusted: %s", text)
		}
		return u
	}
	u := untrusted(`{"mcpServers": {"a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "x"}, "c": {"url": "u"}}}`)
	expect.Equal(t, u.Error(), file+" is not trusted: it was found in this folder, and what it says runs commands")
	expect.OK(t, u.Text.Trust(data))
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x", "env": {"K": "the value"}}, "b": {"command": "x"}, "c": {"url": "u"}}}`:                             "edited: a",
		`{"mcpServers": {"a": {"command": "x", "env": {"K": "${K}"}}, "c": {"url": "${K}"}, "d": {"url": "u"}}, "metarouter": {"mode": "direct"}}`: `added: d; removed: b; edited: c; edited: the object "metarouter"`,
		`{"servers": {"c": {"url": "u"}, "a": {"env": {"K": "${K}"}, "command": "x"}, "b": {"command": "x"}}}`:                                     "",
		`{"mcpServers": {"c": {"url": "u"}, "a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "y"}, "b": {"command": "x"}}}`:           "edited: b",
		`{}`: "removed: a, b, c",
		`{"inputs": [], "servers": {"c": {"url": "u"}, "a": {"env": {"K": "${K}"}, "command": "x"}, "b": {"command": "x"}}}`:                                                                            "added: inputs",
		`{"a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "x"}, "c": {"url": "u"}, "metarouter": {}, "x; added: y": {}}`:                                                                  `added: "x; added: y"; edited: the object "metarouter"`,
		`{"mcpServers": {"` + strings.Repeat("ä", 9999) + `": {}, "1": {}, "2": {}, "3": {}, "4": {}, "5": {}, "a": {"command": "x", "env": {"K": "${K}"}}, "b": {"command": "x"}, "c": {"url": "u"}}}`: "added: 1, 2, 3, 4, 5 and 1 more",
	} {
		how := ""
		if want != "" {
			how = " (" + want + ")"
		}
		expect.Equal(t, untrusted(text).Error(), file+" is not trusted: it was edited since you approved it"+how, "%.80s", text)
	}

	// The approval of a file with very long names is bounded. The approval counts all the same.
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"%s%d": {}`, strings.Repeat("x", 1000), i))
	}
	text := `{"mcpServers": {` + strings.Join(many, ",") + `}}`
	u = untrusted(text)
	expect.OK(t, u.Text.Trust(data))
	expect.OK(t, u.Text.Trusted(data))
	if got := untrusted(`{}`); !got.Before || len(got.Removed) > 0 {
		t.Errorf("got %v", got)
	}
}
