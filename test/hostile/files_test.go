//go:build linux

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A file makes .mcp.json in a folder, as a stranger may have written it.
type file func(dir string) error

// files returns the hostile configuration files.
func files() map[string]file {
	return map[string]file{
		"FIFO":                        func(dir string) error { return syscall.Mkfifo(mcpJSON(dir), 0o600) },
		"link to /dev/zero":           func(dir string) error { return os.Symlink("/dev/zero", mcpJSON(dir)) },
		"link to itself":              func(dir string) error { return os.Symlink(mcpJSON(dir), mcpJSON(dir)) },
		"folder":                      func(dir string) error { return os.Mkdir(mcpJSON(dir), 0o700) },
		"file of 1 TB":                func(dir string) error { return sparse(mcpJSON(dir), 1<<40) },
		"100,000 entries":             written(`{"mcpServers":{` + series(100_000, `"s%d":{"command":"true"},`) + `"s":{"command":"true"}}}`),
		"100,000 problems":            written(`{"mcpServers":{` + series(100_000, `"s%d":{"comand":"true"},`) + `"s":{}}}`),
		"nested 1,000,000 deep":       written(`{"mcpServers":` + nested(`{"a":`, 1_000_000, "1", "}") + `}`),
		"comment without an end":      written(`{"mcpServers":{} /* ` + strings.Repeat("x", 3<<20)),
		"variables in variables":      written(`{"mcpServers":{"s":{"command":"` + nested("${A:-", 100_000, "x", "}") + `"}}}`),
		"names with escape sequences": written(`{"mcpServers":{"\u001b]52;c;eA==\u0007\u202eevil\n":{"command":"\u001b[2J","args":["\u001b[2J\u202e"],"env":{"\u001b[2J":"x"}}}}`),
		"envFile that is /dev/zero":   written(`{"mcpServers":{"s":{"command":"true","envFile":"/dev/zero"}}}`),
		"envFile that is a FIFO": func(dir string) error {
			if err := syscall.Mkfifo(filepath.Join(dir, "env"), 0o600); err != nil {
				return err
			}
			return written(`{"mcpServers":{"s":{"command":"true","envFile":"env"}}}`)(dir)
		},
		"access log that is a device": written(`{"mcpServers":{},"metarouter":{"accessLog":"/dev/zero"}}`),
		"expressions that explode":    written(`{"mcpServers":{},"metarouter":{"classification":{"categories":[{"name":"a","rules":[{"patterns":["` + nested("(", 7, "a", "{1,9})") + `"],"model":"m"}]}]}}}`),
	}
}

func mcpJSON(dir string) string { return filepath.Join(dir, ".mcp.json") }

// written returns a file of this text.
func written(text string) file {
	return func(dir string) error { return os.WriteFile(mcpJSON(dir), []byte(text), 0o600) }
}

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

// commandDeadline is how long a command may take with any file.
const commandDeadline = 2 * time.Minute

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, make := range files() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			expect.OK(t, make(dir))
			for _, command := range [][]string{
				// Found in the folder, and not trusted.
				{"serve", "--standalone"}, {"servers"}, {"trust"},
				// Named, and so trusted.
				{"check", "--config", ".mcp.json"}, {"doctor", "--config", ".mcp.json"},
				{"import", "cursor", "--file", ".mcp.json", "--config", "other.json"},
			} {
				runCommand(t, dir, command)
			}
		})
	}
}

// A stranger has put a pipe, or a link to another file, in the place of each file of the data folder. No command waits for the
// pipe, and the other file stays as it is.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(victim, path string) error{
		"pipe": func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": os.Symlink,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, nil) // no command goes on without an audit log that it can write
			victim, script := filepath.Join(r.dir, "victim"), filepath.Join(r.dir, "a.js")
			expect.OK(t, os.WriteFile(script, []byte(`return await call("honest:echo", {})`), 0o600))
			runAll := func() {
				t.Helper()
				for _, command := range [][]string{{"trust", "--yes"}, {"serve"}, {"call", "honest:echo", "{}"}, {"script", script}, {"search", "echo"}, {"doctor"}} {
					runCommand(t, r.dir, append(command, "--config", r.config))
				}
			}
			runAll()
			replaced := 0
			err := filepath.WalkDir(r.data(), func(path string, e os.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				replaced++
				return errors.Join(os.Remove(path), os.WriteFile(victim, []byte("precious"), 0o600), put(victim, path))
			})
			if err != nil || replaced < 4 {
				t.Fatalf("%d files were replaced: %v", replaced, err)
			}
			runAll()
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("the other file has %.100q, %v", text, err)
			}
		})
	}
}

// runCommand runs a command to its end, and checks what it took and printed.
func runCommand(t *testing.T, dir string, args []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, metarouter, append(args, "--data", filepath.Join(dir, "data"))...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	began := time.Now()
	expect.OK(t, cmd.Start())
	// Not the peak of rusage, which begins with the peak of this process.
	ended, peak := make(chan struct{}), make(chan int, 1)
	go func() {
		most := 0
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-ended:
				tick.Stop()
				peak <- most
				return
			case <-tick.C:
			}
			if most = max(most, memory(cmd.Process.Pid, "VmHWM")); most > killedAt {
				cmd.Process.Kill()
			}
		}
	}()
	cmd.Wait()
	close(ended)
	text := out.String()
	report := func(format string, a ...any) {
		t.Helper()
		t.Errorf("metarouter %s: %s\n%s", strings.Join(args, " "), fmt.Sprintf(format, a...), clip(text, 1500))
	}
	if ctx.Err() != nil {
		report("still ran after %v", time.Since(began))
		return
	}
	if most := <-peak; most > maxMemory {
		report("it used %d MB", most>>20)
	}
	if code := cmd.ProcessState.ExitCode(); code < 0 || strings.Contains(text, "panic: ") || strings.Contains(text, "fatal error: ") {
		report("it ended with %v", cmd.ProcessState)
	}
	if len(text) > 4<<20 {
		report("it printed %d bytes", len(text))
	}
	for _, c := range text {
		if unicode.IsControl(c) && c != '\n' && c != '\t' || unicode.Is(unicode.Bidi_Control, c) {
			report("it printed %U", c)
			return
		}
	}
}
