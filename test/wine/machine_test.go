//go:build linux

package wine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A machine is a Windows that Wine plays: a folder with programs, and a Wine prefix.
type machine struct {
	folder string
	wine   string   // the program
	env    []string // of programs under Wine
}

// installed returns the first of the programs that this machine has.
func installed(t *testing.T, programs ...string) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("%s is set, and none of these programs is installed: %q", variable, programs)
	return ""
}

// goBuild runs a go command that builds a program for Windows in the folder.
func (m *machine) goBuild(t *testing.T, program string, args ...string) {
	t.Helper()
	last := len(args) - 1
	cmd := exec.Command("go", slices.Concat(args[:last], []string{"-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(m.folder, program), args[last]})...)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// boot makes the prefix, with the library that Wine 8 lacks.
func (m *machine) boot(t *testing.T) {
	t.Helper()
	server := installed(t, filepath.Join(filepath.Dir(m.wine), "wineserver"), "wineserver")
	compiler := installed(t, "x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-gcc-win32")
	t.Cleanup(func() { // before the folder is removed
		for _, option := range []string{"-k", "-w"} { // kill all processes, wait for the last one
			cmd := exec.Command(server, option)
			cmd.Env = m.env
			_ = cmd.Run() // fails if no process is left
		}
	})
	if out, code := m.command(t, "", "wineboot.exe", "--init"); code != 0 {
		t.Fatalf("make a prefix: exit code %d\n%s", code, out)
	}
	library := filepath.Join(m.folder, "prefix/drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if out, err := exec.Command(compiler, "-shared", "-s", "-o", library, "testdata/bcryptprimitives.c", "-ladvapi32").CombinedOutput(); err != nil {
		t.Fatalf("compile bcryptprimitives.dll: %v\n%s", err, out)
	}
}

// toWindows returns a path as programs under Wine see it.
func toWindows(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }

// program returns the path of a program, or of another file in the folder.
func (m *machine) program(name string) string { return toWindows(filepath.Join(m.folder, name)) }

// run runs the router to its end, and returns its stdout and stderr, with line ends of Unix.
func (m *machine) run(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	return m.command(t, stdin, append([]string{m.program("metarouter.exe")}, args...)...)
}

func (m *machine) command(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output")) // no pipe, which Wine's own processes would hold open
	expect.OK(t, err)
	defer output.Close()
	cmd := exec.CommandContext(within(t), m.wine, args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = m.folder, m.env, strings.NewReader(stdin), output, output
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	text, err := os.ReadFile(output.Name())
	expect.OK(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n"), cmd.ProcessState.ExitCode()
}

// start starts the router.
func (m *machine) start(t *testing.T, args ...string) *mcptest.Client {
	t.Helper()
	return mcptest.Start(t, m.wine, append([]string{m.program("metarouter.exe")}, args...), m.folder, m.env)
}

// serve starts the router for a client over stdio, to which it shows all tools.
func (m *machine) serve(t *testing.T, config string) *mcptest.Client {
	t.Helper()
	c := m.start(t, "serve", "--mode", "direct", "--config", config)
	_, err := c.Initialize(within(t))
	expect.OK(t, err, "initialize: %s", c.Stderr())
	return c
}

type servers map[string]map[string]any

// bundled returns the entries of the bundled servers.
func bundled() servers {
	return servers{
		"utilities": {"command": "metarouter", "args": []string{"builtin", "utilities"}},
		"files":     {"command": "metarouter", "args": []string{"builtin", "files", "."}, "cwd": "."},
	}
}

// fake returns an entry with the fake server and with more keys.
func (m *machine) fake(more map[string]any, flags ...string) map[string]any {
	_, args := mcptest.Command(flags...)
	entry := map[string]any{"command": m.program("fake.exe"), "args": args}
	maps.Copy(entry, more)
	return entry
}

// stubborn returns an entry with three processes that end only if they are killed.
func (m *machine) stubborn() map[string]any {
	return m.fake(nil, "-ignore-eof", "-ignore-term", "-grandchild", "-grandchild-setsid")
}

// configure writes the configuration as an editor does, and returns its path.
func (m *machine) configure(t *testing.T, all servers) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": all})
	expect.OK(t, err)
	file := filepath.Join(m.folder, "mcp.json")
	expect.OK(t, errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file)))
	return toWindows(file)
}

// await waits until so many processes of a program run under Wine.
func (m *machine) await(t *testing.T, count int, program string) {
	t.Helper()
	var running int
	defer func() {
		if t.Failed() {
			t.Logf("%d processes of %s run, want %d", running, program, count)
		}
	}()
	mcptest.WaitFor(t, "the processes of "+program, func() bool {
		running = 0
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			line, _ := os.ReadFile(name) // empty for a process that has ended
			if command, _, _ := bytes.Cut(line, []byte{0}); string(command) == m.program(program) {
				running++
			}
		}
		return running == count
	})
}

// A caller is a client over any transport.
type caller interface {
	Request(ctx context.Context, method string, params any) (json.RawMessage, error)
	Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
}

// use lists the tools and calls one of a bundled server.
func use(t *testing.T, c caller) {
	t.Helper()
	ctx := within(t)
	if list, err := c.Request(ctx, "tools/list", nil); err != nil || !bytes.Contains(list, []byte(`"files__read_file"`)) {
		t.Errorf("tools/list: %s, %v", list, err)
	}
	result, err := c.Call(ctx, "utilities__unit_convert", map[string]any{"value": 5, "from_unit": "km", "to_unit": "mi"})
	if text := firstText(result); err != nil || text != `{"from_unit":"km","to_unit":"mi","value":3.1068559611866697}` {
		t.Errorf("utilities__unit_convert: %q, %v", text, err)
	}
}

// firstText returns the text of a result's first content.
func firstText(result json.RawMessage) string {
	var r struct{ Content []struct{ Text string } }
	if json.Unmarshal(result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// within returns a context for one exchange or command.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
