package reload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// Some editors write into the file, others put a new one in its place.
func TestWatchEdit(t *testing.T) {
	layer.Integration(t)
	for _, save := range []func(*testing.T, string, string){write, rename} {
		w := start(t)
		save(t, w.file, command("second"))
		w.expect("second")
		save(t, w.file, command("third"))
		w.expect("third")
	}
}

func TestWatchEditSinceLoad(t *testing.T) {
	layer.Integration(t)
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, command("first"))
	initial, err := config.Load(file)
	expect.OK(t, err)
	write(t, file, command("second"))
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan config.Config), make(chan error, 1)
	go func() { done <- Pipeline{Watch: true}.Run(ctx, initial, out) }()
	watched{T: t, out: out}.expect("second")
	cancel()
	expect.OK(t, <-done)
}

func TestWatchBadEdit(t *testing.T) {
	layer.Integration(t)
	w := start(t)
	rename(t, w.file, "{\n  mcpServers: {}}")
	w.expectLog(1, "error", w.file+":2:3: ")
	rename(t, w.file, command("second"))
	w.expect("second")
}

func TestWatchMissing(t *testing.T) {
	layer.Integration(t)
	w := start(t)
	expect.OK(t, os.Remove(w.file))
	w.expectLog(1, "error", "read config")
	write(t, w.file, command("second"))
	w.expect("second")
}

// A receiver that has begun without the file gets it once it exists, in a new folder too.
func TestWatchFromNothing(t *testing.T) {
	layer.Integration(t)
	initial, err := config.Load()
	expect.OK(t, err)
	initial.Files = []string{filepath.Join(t.TempDir(), "new", "mcp.json")}
	w := watchFrom(t, initial)
	expect.OK(t, os.Mkdir(filepath.Dir(w.file), 0o700))
	write(t, w.file, command("first"))
	w.expect("first")
	if n := w.logs.FilterLevelExact(zap.WarnLevel).Len(); n > 0 {
		t.Errorf("the missing file was reported %d times: %v", n, w.logs.FilterLevelExact(zap.WarnLevel).All())
	}
}

func TestWatchFolderReplaced(t *testing.T) {
	layer.Integration(t)
	folder := filepath.Join(t.TempDir(), "a", "b")
	expect.OK(t, os.MkdirAll(folder, 0o700))
	file := filepath.Join(folder, "mcp.json")
	write(t, file, command("first"))
	w := watch(t, file)
	for i, next := range []string{"second", "third"} {
		expect.OK(t, os.RemoveAll(filepath.Dir(folder)))
		w.expectLog(i+1, "error", "read config")
		expect.OK(t, os.MkdirAll(folder, 0o700))
		write(t, file, command(next))
		w.expect(next)
	}
}

func TestWatchEqualEdit(t *testing.T) {
	layer.Integration(t)
	w := start(t)
	rename(t, w.file, "// a comment\n"+command("first"))
	w.expectLog(2, "servers", 1) // at the start, and now
	w.expectNothing()
	rename(t, w.file, command("second"))
	w.expect("second", "first")
}

// The receiver is away while the file gets one server after the other, and then
// takes only the last state.
func TestWatchLatestWins(t *testing.T) {
	layer.Integration(t)
	w := start(t)
	servers := `"a": {"command": "x"}`
	for n := 2; n <= 4; n++ {
		servers += fmt.Sprintf(`, "a%d": {"command": "x"}`, n)
		rename(t, w.file, `{"mcpServers": {`+servers+`}}`)
		w.expectLog(1, "servers", n)
	}
	if c := <-w.out; len(c.Servers) != 4 {
		t.Errorf("got %d servers, want the last 4", len(c.Servers))
	}
}

// An edit that is taken back before the receiver looks is no edit.
func TestWatchTakenBack(t *testing.T) {
	layer.Integration(t)
	w := start(t)
	rename(t, w.file, "{}")
	w.expectLog(1, "servers", 0)
	rename(t, w.file, command("first")+"// a comment")
	w.expectLog(2, "servers", 1) // at the start, and now
	w.expectNothing()
	rename(t, w.file, command("second"))
	w.expect("second", "first")
}

func TestWatchEnvFile(t *testing.T) {
	layer.Integration(t)
	dir := t.TempDir()
	file, vars := filepath.Join(dir, "mcp.json"), filepath.Join(t.TempDir(), "vars")
	with := func(vars string) string {
		return `{"mcpServers": {"a": {"command": "x", "envFile": "` + filepath.ToSlash(vars) + `"}}}`
	}
	write(t, file, command("x"))
	w := watch(t, file)
	expect := func(want string) {
		t.Helper()
		for deadline := time.After(30 * time.Second); ; {
			select {
			case c := <-w.out:
				if c.Servers[0].Env["K"] == want {
					return
				}
			case <-deadline:
				t.Fatalf("K=%s was not sent", want)
			}
		}
	}
	write(t, vars, "K=1")
	rename(t, file, with(vars))
	expect("1")
	rename(t, vars, "K=2")
	expect("2")
	write(t, vars, "K=3")
	expect("3")
}

// As Kubernetes mounts a ConfigMap: mcp.json -> ..data/mcp.json, and ..data is
// swapped for a link to another folder.
func TestWatchKubernetes(t *testing.T) {
	layer.Integration(t)
	mount := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		expect.OK(t, os.Mkdir(filepath.Join(mount, version), 0o700))
		write(t, filepath.Join(mount, version, "mcp.json"), text)
		symlink(t, version, filepath.Join(mount, "..data_tmp"))
		expect.OK(t, os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	}
	publish("..1", command("first"))
	file := filepath.Join(mount, "mcp.json")
	symlink(t, filepath.Join("..data", "mcp.json"), file)
	w := watch(t, file)
	publish("..2", command("second"))
	expect.OK(t, os.RemoveAll(filepath.Join(mount, "..1")))
	w.expect("second")
	publish("..3", command("third"))
	w.expect("third")
}

// A dotfiles repository: the link stays and the file behind it is edited.
func TestWatchBehindSymlink(t *testing.T) {
	layer.Integration(t)
	real := filepath.Join(t.TempDir(), "real.json")
	write(t, real, command("first"))
	link := filepath.Join(t.TempDir(), "mcp.json")
	symlink(t, real, link)
	w := watch(t, link)
	rename(t, real, command("second"))
	w.expect("second")
	write(t, real, command("third"))
	w.expect("third")
}
