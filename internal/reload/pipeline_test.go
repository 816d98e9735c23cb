package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

func command(name string) string { return `{"mcpServers": {"a": {"command": "` + name + `"}}}` }

// A watched file, and the values that come out.
type watched struct {
	*testing.T
	file string
	out  chan config.Config
	logs *observer.ObservedLogs
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watch begins with the files as they are, and ends with the test.
func watch(t *testing.T, files ...string) watched {
	initial, err := config.Load(files...)
	if err != nil {
		t.Fatal(err)
	}
	w := watchFrom(t, initial)
	w.expectLog(1, "servers", "") // it reads the files when it has begun to watch
	return w
}

func watchFrom(t *testing.T, initial config.Config) watched {
	core, logs := observer.New(zap.DebugLevel)
	w := watched{t, initial.Files[0], make(chan config.Config), logs}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Pipeline{Watch: true, Log: zap.New(core)}.Run(ctx, initial, w.out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// expect takes configs until one has the command. Those before it may be
// states between two writes, but never one of not.
func (w watched) expect(command string, not ...string) {
	w.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case c := <-w.out:
			got := c.Servers[0].Command
			for _, n := range not {
				if got == n {
					w.Fatalf("got %q, which must not be sent", got)
				}
			}
			if got == command {
				return
			}
		case <-deadline:
			w.Fatalf("%q was not sent", command)
		}
	}
}

// expectNothing is for when the log says that all edits were read.
func (w watched) expectNothing() {
	w.Helper()
	select {
	case c := <-w.out:
		w.Fatalf("got a config with %d servers", len(c.Servers))
	default:
	}
}

// expectLog waits for so many lines with a field that is, or contains, the value.
func (w watched) expectLog(times int, field string, value any) {
	w.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		seen := 0
		for _, line := range w.logs.All() {
			got, ok := line.ContextMap()[field]
			if ok && strings.Contains(fmt.Sprint(got), fmt.Sprint(value)) {
				seen++
			}
		}
		if seen >= times {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("%s %v was not logged", field, value)
		}
	}
}

func rename(t *testing.T, file, text string) {
	t.Helper()
	write(t, file+".tmp", text)
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) watched {
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, command("first"))
	return watch(t, file)
}

func TestWatchWrite(t *testing.T) {
	w := start(t)
	write(t, w.file, command("second"))
	w.expect("second")
	write(t, w.file, command("third"))
	w.expect("third")
}

func TestWatchRename(t *testing.T) {
	w := start(t)
	rename(t, w.file, command("second"))
	w.expect("second")
	rename(t, w.file, command("third"))
	w.expect("third")
}

func TestWatchEditSinceLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, command("first"))
	initial, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, command("second"))
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan config.Config), make(chan error, 1)
	go func() { done <- Pipeline{Watch: true}.Run(ctx, initial, out) }()
	watched{T: t, out: out}.expect("second")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchBadEdit(t *testing.T) {
	w := start(t)
	rename(t, w.file, "{\n  mcpServers: {}}")
	w.expectLog(1, "error", w.file+":2:3: ")
	rename(t, w.file, command("second"))
	w.expect("second")
}

func TestWatchMissing(t *testing.T) {
	w := start(t)
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.expectLog(1, "error", "read config")
	write(t, w.file, command("second"))
	w.expect("second")
}

// A receiver that has begun without the file gets it once it exists, in a new folder too.
func TestWatchFromNothing(t *testing.T) {
	initial, err := config.Load()
	if err != nil {
		t.Fatal(err)
	}
	initial.Files = []string{filepath.Join(t.TempDir(), "new", "mcp.json")}
	w := watchFrom(t, initial)
	if err := os.Mkdir(filepath.Dir(w.file), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, w.file, command("first"))
	w.expect("first")
	if n := w.logs.FilterLevelExact(zap.WarnLevel).Len(); n > 0 {
		t.Errorf("the missing file was reported %d times: %v", n, w.logs.FilterLevelExact(zap.WarnLevel).All())
	}
}

// A broken file that is deleted again is complained about no more.
func TestPipelineBackToNothing(t *testing.T) {
	first, err := config.Load()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	first.Files = []string{file}
	reload, judged := make(chan os.Signal), make(chan error, 9)
	p := Pipeline{Reload: reload, Judged: func(err error) { judged <- err }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, first, make(chan config.Config)) }()
	defer func() {
		cancel()
		<-done
	}()
	write(t, file, "{")
	reload <- os.Interrupt
	if err := <-judged; err == nil {
		t.Error("a broken file is not refused")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	reload <- os.Interrupt
	reload <- os.Interrupt // taken once the one before is done
	select {
	case err := <-judged:
		if err != nil {
			t.Errorf("the deleted file is refused: %v", err)
		}
	default:
		t.Error("the verdict on the deleted file stays")
	}
}

func TestWatchFolderReplaced(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "mcp.json")
	write(t, file, command("first"))
	w := watch(t, file)
	for i, next := range []string{"second", "third"} {
		if err := os.RemoveAll(filepath.Dir(folder)); err != nil {
			t.Fatal(err)
		}
		w.expectLog(i+1, "error", "read config")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, file, command(next))
		w.expect(next)
	}
}

func TestWatchEqualEdit(t *testing.T) {
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

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
}

// As Kubernetes mounts a ConfigMap: mcp.json -> ..data/mcp.json, and ..data is
// swapped for a link to another folder.
func TestWatchKubernetes(t *testing.T) {
	mount := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(mount, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(mount, version, "mcp.json"), text)
		symlink(t, version, filepath.Join(mount, "..data_tmp"))
		if err := os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("..1", command("first"))
	file := filepath.Join(mount, "mcp.json")
	symlink(t, filepath.Join("..data", "mcp.json"), file)
	w := watch(t, file)
	publish("..2", command("second"))
	if err := os.RemoveAll(filepath.Join(mount, "..1")); err != nil {
		t.Fatal(err)
	}
	w.expect("second")
	publish("..3", command("third"))
	w.expect("third")
}

// A dotfiles repository: the link stays and the file behind it is edited.
func TestWatchBehindSymlink(t *testing.T) {
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

// A pipeline with every source and stage: an edit waits until it is trusted, an adjusted
// reading that the receiver has is skipped, and a signal reads the files.
func TestPipelineStages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, command("first"))
	first, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	w := watched{t, file, make(chan config.Config), logs}
	reload, judged, sent := make(chan os.Signal), make(chan error, 9), make(chan config.Config, 9)
	var trusted atomic.Bool
	p := Pipeline{
		Reload: reload,
		Adjust: func(c config.Config) config.Config {
			c.Router.Mode = "search"
			return c
		},
		Trusted: func(c config.Config) error {
			if got := c.Servers[0].Command; got != "${NOT_SET:-second}" {
				t.Errorf("%q is to be trusted: it was expanded before", got)
			}
			if !trusted.Load() {
				return &trustfile.Untrusted{Text: c.Text}
			}
			return nil
		},
		Judged: func(err error) { judged <- err },
		Sent:   func(c config.Config) { sent <- c },
		Log:    zap.New(core),
	}
	first = p.Adjust(first)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, first, w.out) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	reload <- os.Interrupt // the same text
	if err := <-judged; err != nil {
		t.Errorf("the files as they were are refused: %v", err)
	}
	w.expectNothing()

	write(t, file, "{")
	reload <- os.Interrupt
	if _, ok := errors.AsType[config.Problem](<-judged); !ok {
		t.Error("a broken file is not refused")
	}

	write(t, file, command("${NOT_SET:-second}"))
	reload <- os.Interrupt
	err = <-judged
	if _, ok := errors.AsType[*trustfile.Untrusted](err); !ok {
		t.Errorf("got %v, want an Untrusted", err)
	}
	w.expectNothing()
	trusted.Store(true) // and the file is not saved again
	w.expect("second")
	if err := <-judged; err != nil {
		t.Errorf("the trusted edit is refused: %v", err)
	}
	if c := <-sent; c.Router.Mode != "search" {
		t.Errorf("it was sent in mode %q", c.Router.Mode)
	}
}
