//go:build unix

package process

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// setEnviron makes the environment of the process these variables, until the test ends.
func setEnviron(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value) // which is put back
		os.Unsetenv(name)
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// What a shell prints beyond the bound takes no memory, even if it is copied from a pipe.
func TestShellOutputIsBounded(t *testing.T) {
	layer.Integration(t)
	out := &limited{left: 3}
	n, err := io.Copy(out, io.MultiReader(strings.NewReader("abcd"), strings.NewReader("efgh")))
	expect.OK(t, err)
	if n != 8 || out.kept.String() != "abc" {
		t.Errorf("it has taken %d bytes, and kept %q", n, out.kept.String())
	}
}

// TestSettle has two clients with other environments get the same one from the login shell, but for what only they have.
func TestSettle(t *testing.T) {
	layer.Integration(t)
	home, data := t.TempDir(), t.TempDir()
	expect.OK(t, os.Chmod(data, 0o700))
	asked := filepath.Join(home, "asked")
	write := func(file, text string) {
		expect.OK(t, os.WriteFile(file, []byte(text), 0o755))
	}
	shell := filepath.Join(home, "shell")
	write(shell, "#!/bin/sh\necho 'Welcome!'\necho x >> "+asked+"\n[ ! -e "+home+"/busy ] || exit 1\n. "+home+"/.profile\nexec /bin/sh -c \"$2\"\n")
	write(filepath.Join(home, ".profile"), "export PATH=/shells:/usr/bin LC_TIME=sv TOKEN_OF_SHELL='two\nlines'\n")
	terminal := map[string]string{"HOME": home, "SHELL": shell, "PATH": "/shells:/terminals", "LANG": "de", "LC_TIME": "de", "LC_NAME": "de", "TERM": "xterm", "OTHER": "o"}
	menu := map[string]string{"HOME": home, "SHELL": shell, "PATH": "/menus", "XDG_RUNTIME_DIR": "/run/me"}

	for _, tt := range []struct {
		client map[string]string
		path   string
		also   map[string]string
	}{
		{terminal, "/shells:/usr/bin:/terminals", map[string]string{"OTHER": "o"}},
		{menu, "/shells:/usr/bin:/menus", map[string]string{"XDG_RUNTIME_DIR": "/run/me"}},
	} {
		setEnviron(t, tt.client)
		base := Settle(t.Context(), data, true)
		want := map[string]string{"HOME": home, "SHELL": shell, "PATH": tt.path, "LC_TIME": "sv"}
		maps.Copy(want, tt.also)
		got := make(map[string]string)
		for _, variable := range os.Environ() {
			name, value, _ := strings.Cut(variable, "=")
			if name != "LANG" { // which the machine may set
				got[name] = value
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if os.Getenv("LANG") == "de" {
			t.Error("LANG is the client's")
		}
		if value, ok := base.Lookup("TOKEN_OF_SHELL"); !ok || value != "two\nlines" {
			t.Errorf("the shell's variable is %q, %t", value, ok)
		}
		expect.Equal(t, base.Left["LC_NAME"], tt.client["LC_NAME"], "the client's variable")
	}
	times := func() int {
		said, _ := os.ReadFile(asked)
		return strings.Count(string(said), "x")
	}
	expect.Equal(t, times(), 2, "the shell was asked … times") // at first, and by the second client for a variable that is not remembered
	if said, err := os.ReadFile(filepath.Join(data, "environment.json")); err != nil || strings.Contains(string(said), "lines") {
		t.Errorf("what no server gets is remembered: %s, %v", said, err)
	}
	write(filepath.Join(home, ".profile"), "export PATH=/edited\n")
	expect.OK(t, os.Chtimes(filepath.Join(home, ".profile"), time.Time{}, time.Unix(1, 0)))
	setEnviron(t, menu)
	if Settle(t.Context(), data, true); os.Getenv("PATH") != "/edited:/menus" || times() != 3 {
		t.Errorf("after an edit, PATH is %s, and the shell was asked %d times", os.Getenv("PATH"), times())
	}

	busy := filepath.Join(home, "busy")
	write(busy, "")
	write(filepath.Join(home, ".zshenv"), "") // so that it is asked again
	setEnviron(t, menu)
	if Settle(t.Context(), data, true); os.Getenv("PATH") != "/edited:/menus" || times() != 4 {
		t.Errorf("without an answer, PATH is %s, and the shell was asked %d times", os.Getenv("PATH"), times())
	}
	expect.OK(t, os.Remove(filepath.Join(data, "environment.json")))
	for _, tt := range []struct {
		age  time.Duration // of what is remembered
		path string
	}{{0, "/menus"}, {0, "/menus"}, {time.Hour, "/edited:/menus"}} {
		setEnviron(t, menu)
		if record := filepath.Join(data, "environment.json"); tt.age > 0 {
			var r shellRecord
			said, err := os.ReadFile(record)
			expect.OK(t, err)
			expect.OK(t, json.Unmarshal(said, &r))
			r.Since = r.Since.Add(-tt.age)
			said, err = json.Marshal(r)
			expect.OK(t, err)
			expect.OK(t, os.WriteFile(record, said, 0o600))
		}
		if Settle(t.Context(), data, true); os.Getenv("PATH") != tt.path {
			t.Errorf("PATH is %s, want %s", os.Getenv("PATH"), tt.path)
		}
		os.Remove(busy)
	}
	expect.Equal(t, times(), 6, "the shell was asked … times")
	setEnviron(t, terminal)
	if Settle(t.Context(), data, false); os.Getenv("LC_NAME") != "de" {
		t.Error("a router that no client has started has lost its own locale")
	}
	setEnviron(t, map[string]string{"HOME": home, "SHELL": "/bin/false", "PATH": "/menus", "LANG": "de"})
	before := os.Environ()
	if Settle(t.Context(), data, true); !slices.Equal(os.Environ(), before) {
		t.Errorf("without a shell the environment became %q", os.Environ())
	}
}
