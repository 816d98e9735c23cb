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
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
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
	expect.OK(t, err)
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
		expect.OK(t, <-done, "Run")
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
	expect.OK(t, os.Rename(file+".tmp", file))
}

func start(t *testing.T) watched {
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, command("first"))
	return watch(t, file)
}

// A broken file that is deleted again is complained about no more.
func TestPipelineBackToNothing(t *testing.T) {
	first, err := config.Load()
	expect.OK(t, err)
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
	expect.OK(t, os.Remove(file))
	reload <- os.Interrupt
	reload <- os.Interrupt // taken once the one before is done
	select {
	case err := <-judged:
		expect.OK(t, err, "the deleted file")
	default:
		t.Error("the verdict on the deleted file stays")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
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

// A pipeline with every source and stage: an edit waits until it is trusted, an adjusted
// reading that the receiver has is skipped, and a signal reads the files.
func TestPipelineStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "mcp.json")
		write(t, file, command("first"))
		first, err := config.Load(file)
		expect.OK(t, err)
		core, logs := observer.New(zap.DebugLevel)
		w := watched{t, file, make(chan config.Config), logs}
		reload, judged, sent := make(chan os.Signal), make(chan error, 9), make(chan config.Config, 9)
		var trusted atomic.Bool
		p := Pipeline{
			Reload: reload,
			Adjust: func(c config.Config, _ bool) config.Config {
				c.Router.Mode = "search"
				return c
			},
			Trusted: func(c config.Config) error {
				expect.Equal(t, c.Servers[0].Command, "${NOT_SET:-second}", "… is to be trusted: it was expanded before")
				if !trusted.Load() {
					return &trustfile.Untrusted{Text: c.Text}
				}
				return nil
			},
			Judged: func(err error) { judged <- err },
			Sent:   func(c config.Config) { sent <- c },
			Log:    zap.New(core),
		}
		first = p.Adjust(first, false)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx, first, w.out) }()
		defer func() {
			cancel()
			expect.OK(t, <-done)
		}()

		reload <- os.Interrupt // the same text
		expect.OK(t, <-judged, "the files as they were")
		w.expectNothing()

		write(t, file, "{")
		reload <- os.Interrupt
		if _, ok := errors.AsType[config.Problem](<-judged); !ok {
			t.Error("a broken file is not refused")
		}

		write(t, file, command("${NOT_SET:-second}"))
		reload <- os.Interrupt
		waits, ok := errors.AsType[*trustfile.Untrusted](<-judged)
		if !ok {
			t.Fatal("an edit that no person has approved is not refused")
		}
		write(t, file, strings.Replace(command("${NOT_SET:-second}"), "}}}", `, "args": ["x"]}}}`, 1)) // which is refused in the same words
		if now, ok := errors.AsType[*trustfile.Untrusted](<-judged); !ok || now.Text.Digest() == waits.Text.Digest() {
			t.Errorf("an edit of the edit that waits is not judged: %v", now)
		}
		w.expectNothing()
		expect.OK(t, os.Rename(file, file+".away")) // for a moment
		trusted.Store(true)
		time.Sleep(2 * recheck)
		expect.OK(t, os.Rename(file+".away", file)) // and it is not saved again
		w.expect("second")
		expect.OK(t, <-judged, "the trusted edit")
		if c := <-sent; c.Router.Mode != "search" {
			t.Errorf("it was sent in mode %q", c.Router.Mode)
		}
	})
}
