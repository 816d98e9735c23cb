//go:build linux

package wine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// variable names the environment variable that runs the test.
const variable = "METAROUTER_WINE"

// TestWindows builds the program and the fake server for Windows, and runs them under Wine.
func TestWindows(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skipf("it builds for Windows, and needs Wine and a C compiler of MinGW-w64; %s=1 runs it", variable)
	}
	m := &machine{folder: t.TempDir(), wine: installed(t, "wine64", "/usr/lib/wine/wine64", "wine")}
	m.env = append(os.Environ(), "WINEPREFIX="+filepath.Join(m.folder, "prefix"), "WINEDEBUG=-all",
		"WINEDLLOVERRIDES=winemenubuilder.exe,mscoree,mshtml=") // no menus, .NET or browser
	m.goBuild(t, "metarouter.exe", "build", "../../cmd/metarouter")
	m.goBuild(t, "fake.exe", "test", "-c", ".") // this package for Windows: its TestMain plays the fake server
	m.boot(t)
	for _, part := range []struct {
		name string
		test func(*machine, *testing.T)
	}{
		{"version", (*machine).version},
		{"check", (*machine).check},
		{"route", (*machine).route},
		{"secrets", (*machine).secrets},
		{"stdio", (*machine).stdio},
		{"HTTP", (*machine).http},
		{"edit", (*machine).edit},
		{"kill", (*machine).kill},
		{"packages", (*machine).packages},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(m, t) })
	}
}

func (m *machine) version(t *testing.T) {
	if out, code := m.run(t, "", "version"); code != 0 || !strings.HasPrefix(out, "metarouter ") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// Paths are those of Windows; a mistake has its line and column.
func (m *machine) check(t *testing.T) {
	file := m.configure(t, bundled())
	if out, code := m.run(t, "", "check", "--config", file); code != 0 || out != file+": 2 servers, no problem\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	bad := filepath.Join(m.folder, "bad.json")
	expect.OK(t, os.WriteFile(bad, []byte("{\"mcpServers\": {\n  \"a\": {\"command\": \"C:\\tools\\a.exe\"}\n}}"), 0o600))
	if out, code := m.run(t, "", "check", "--config", toWindows(bad)); code != 2 || !strings.HasPrefix(out, toWindows(bad)+":2:20: ") {
		t.Errorf("of a backslash that is not doubled: exit code %d, %q", code, out)
	}
}

func (m *machine) route(t *testing.T) {
	out, code := m.run(t, "", "route", "convert 5 kilometers to miles", "--args", `{"value": 5, "from_unit": "km", "to_unit": "mi"}`,
		"--config", m.configure(t, bundled()))
	if code != 0 || !strings.Contains(out, "utilities:unit_convert") || !strings.Contains(out, `{"from_unit":"km","to_unit":"mi","value":3.1068559611866697}`) {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// The value of a secret reaches a server; its key is in the Credential Manager, which Wine keeps in the registry.
func (m *machine) secrets(t *testing.T) {
	if out, code := m.run(t, "a value", "secret", "set", "DEMO"); code != 0 {
		t.Fatalf("exit code %d, %q", code, out)
	}
	folder := filepath.Join(m.folder, "prefix/drive_c/users/*/AppData/Roaming/metarouter/secrets.")
	if values, _ := filepath.Glob(folder + "enc"); len(values) != 1 {
		t.Error("the file with the values is missing")
	}
	if keys, _ := filepath.Glob(folder + "key"); len(keys) != 0 {
		t.Errorf("the key is in a file: %q", keys)
	}
	file := m.configure(t, servers{"fake": m.fake(map[string]any{"env": map[string]string{"DEMO": "${keyring:DEMO}"}}, "-tools", "env")})
	if out, code := m.run(t, "", "call", "fake__env", "--config", file); code != 0 || !strings.Contains(out, "DEMO=a value") {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// A client over stdio uses the bundled servers, and one that a batch file starts. When it leaves, all processes end.
func (m *machine) stdio(t *testing.T) {
	_, args := mcptest.Command("-name", "two words", "-ignore-eof", "-grandchild")
	batch := "@echo off\r\n\"" + m.program("fake.exe") + "\" %*\r\n"
	expect.OK(t, os.WriteFile(filepath.Join(m.folder, "tool.cmd"), []byte(batch), 0o600))
	all := bundled()
	all["batch"] = map[string]any{"command": "tool", "args": args, "env": map[string]string{"PATH": toWindows(m.folder)}}
	c := m.serve(t, m.configure(t, all))
	use(t, c)
	ctx := within(t)
	result, err := c.Call(ctx, "batch__echo", map[string]string{"text": "Grüße, \"%PATH%\"\n"})
	if text := firstText(result); err != nil || text != `{"text":"Grüße, \"%PATH%\"\n"}` {
		t.Errorf("batch__echo: %q, %v", text, err)
	}
	result, err = c.Call(ctx, "files__read_file", map[string]string{"path": "mcp.json"})
	if err != nil || !strings.Contains(firstText(result), "mcpServers") {
		t.Errorf("files__read_file: %s, %v", result, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("%v\n%s", err, c.Stderr())
	}
	m.await(t, 0, "fake.exe")
	m.await(t, 0, "metarouter.exe")
}

func (m *machine) http(t *testing.T) {
	at := mcptest.FreeAddress(t)
	server := m.start(t, "serve", "--http", at, "--mode", "direct", "--config", m.configure(t, bundled()))
	mcptest.Listening(t, at)
	c := mcptest.NewHTTPClient(t, "http://"+at+"/mcp")
	_, err := c.Initialize(within(t))
	expect.OK(t, err, "initialize: %s", server.Stderr())
	use(t, c)
	server.Kill()
	m.await(t, 0, "metarouter.exe")
}

// An edit of the configuration ends a server with all that it has started; another one keeps its process.
func (m *machine) edit(t *testing.T) {
	all := servers{"stays": m.fake(nil, "-tools", "pid"), "goes": m.stubborn()}
	c := m.serve(t, m.configure(t, all))
	m.await(t, 4, "fake.exe")
	before, err := c.Call(within(t), "stays__pid", nil)
	expect.OK(t, err)
	delete(all, "goes")
	m.configure(t, all)
	m.await(t, 1, "fake.exe")
	if after, err := c.Call(within(t), "stays__pid", nil); err != nil || firstText(after) != firstText(before) {
		t.Errorf("the other server was %s and is %s, %v", firstText(before), firstText(after), err)
	}
	c.Kill()
	m.await(t, 0, "fake.exe")
}

// The kernel ends the servers of a router that was killed, and all that they have started.
func (m *machine) kill(t *testing.T) {
	c := m.serve(t, m.configure(t, servers{"stubborn": m.stubborn()}))
	m.await(t, 3, "fake.exe")
	c.Kill()
	m.await(t, 0, "fake.exe")
}

// The tests of packages with code of their own for Windows pass. Under Wine 8, os.RemoveAll can't remove the files of
// the two that are skipped.
func (m *machine) packages(t *testing.T) {
	for _, name := range []string{
		"internal/program", "internal/reload", "internal/safefile", "server/internal/stdio",
		"supervisor", "internal/process", "supervisor/internal/transport",
	} {
		t.Run(name, func(t *testing.T) {
			m.goBuild(t, "tests.exe", "test", "-c", "../../"+name)
			if out, code := m.command(t, "", m.program("tests.exe"), "-test.short", "-test.skip", "^(TestTailIsPlain|TestWrite)$"); code != 0 {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
}
