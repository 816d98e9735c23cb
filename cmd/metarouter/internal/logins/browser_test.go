package logins

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Over SSH and without a display no browser is opened, unless BROWSER says how.
func TestMissing(t *testing.T) {
	for _, tc := range []struct {
		system, env string
		missing     bool
	}{
		{"linux", "", true},
		{"linux", "DISPLAY=:0", false},
		{"linux", "WAYLAND_DISPLAY=wayland-0", false},
		{"linux", "DISPLAY=:10 SSH_CONNECTION=1.2.3.4", true},
		{"linux", "BROWSER=/vscode/browser.sh SSH_CONNECTION=1.2.3.4", false},
		{"darwin", "", false},
		{"darwin", "SSH_TTY=/dev/pts/1", true},
		{"windows", "", false},
	} {
		getenv := func(name string) string {
			for _, pair := range strings.Fields(tc.env) {
				if value, ok := strings.CutPrefix(pair, name+"="); ok {
					return value
				}
			}
			return ""
		}
		expect.Equal(t, noBrowser(getenv, tc.system) != "", tc.missing, "%s with %q", tc.system, tc.env)
	}
}

// What a server calls a page may be a file, a script or an option.
func TestCheck(t *testing.T) {
	for page, good := range map[string]bool{
		"https://issuer.example/authorize?a=b&c=%20d#e": true,
		"http://127.0.0.1:8080/x":                       true,
		"https://bücher.example/":                       true,
		"":                                              false,
		"-https://issuer.example/":                      false,
		"--help":                                        false,
		"file://host/share/x.exe":                       false,
		"vscode://host/open?x":                          false,
		"file:///etc/passwd":                            false,
		"javascript:alert(1)":                           false,
		"ms-msdt:/id PCWDiagnostic":                     false,
		`\\host\share\x.exe`:                            false,
		"https:///path":                                 false,
		"https:issuer.example":                          false,
		"https://user:password@issuer.example/":         false,
		"https://issuer.example/\n--option":             false,
		"https://issuer.example/ --option":              false,
		"https://issuer.example/'; calc":                false,
		"https://issuer.example/\u202egnp.exe":          false,
		"https://issuer.example/" + strings.Repeat("a", maxURL): false,
	} {
		expect.Equal(t, check(page) == nil, good, "%q", page)
	}
}

// The program gets the page as one argument, whatever a shell would do with it.
func TestOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the browser is a shell script")
	}
	folder := t.TempDir()
	script, got := filepath.Join(folder, "browser"), filepath.Join(folder, "got")
	expect.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s|' \"$@\" > "+got+".new; mv "+got+".new "+got+"\n"), 0o700))
	const page = "https://issuer.example/?a=$(id)&b=;c|d"
	getenv := func(name string) string {
		if name == "BROWSER" {
			return script
		}
		return ""
	}
	expect.OK(t, openBrowser(page, getenv))
	var text []byte
	mcptest.WaitFor(t, "the browser", func() bool { text, _ = os.ReadFile(got); return len(text) > 0 })
	expect.Equal(t, string(text), page+"|", "the program got")
	os.Remove(got)
	if openBrowser("file:///etc/passwd", getenv) == nil {
		t.Error("a file was opened")
	}
	if _, err := os.Stat(got); err == nil {
		t.Error("the program was started for a file")
	}
}
