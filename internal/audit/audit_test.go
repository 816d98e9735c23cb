package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// write writes events with these targets, each with a lock of its own.
func write(t *testing.T, o Options, targets ...string) {
	t.Helper()
	f, err := newFile(o)
	expect.OK(t, err)
	for _, target := range targets {
		expect.OK(t, f.append(t.Context(), []Entry{{Time: now(), Event: Event{Action: Control, Outcome: OK, Target: target}}}))
	}
}

// newLog returns the path of a log with six events, in three files.
func newLog(t *testing.T) Options {
	t.Helper()
	o := Options{File: filepath.Join(t.TempDir(), "logs", "audit.jsonl"), MaxSize: 250, MaxFiles: 10}
	write(t, o, "one", "two", "three", "four", "five", "six")
	if files := logfile.Old(o.File); len(files) != 2 {
		t.Fatalf("the old files are %q", files)
	}
	return o
}

// lastOf returns the last entries of a log, at most n, the oldest first.
func lastOf(t *testing.T, path string, n int) (all []Entry, err error) {
	err = read(t.Context(), path, func(l line) error {
		if e, err := parse(l.text); err == nil {
			all = append(all, e)
		}
		return nil
	})
	return all[max(0, len(all)-n):], err
}

func TestChain(t *testing.T) {
	o := newLog(t)
	report, err := Verify(t.Context(), o.File, "")
	if err != nil || report.Events != 6 || report.Removed != 0 || report.Last < report.First || len(report.Hash) != 64 {
		t.Fatalf("%+v, %v", report, err)
	}
	write(t, o, "seven")
	later, err := Verify(t.Context(), o.File, report.Hash)
	if err != nil || later.Events != 7 || later.After != 1 {
		t.Errorf("with the hash of the sixth event: %+v, %v", later, err)
	}
	last, err := lastOf(t, o.File, 2)
	if err != nil || len(last) != 2 || last[0].Target != "six" || last[1].Target != "seven" || last[1].Seq != 7 || last[1].Prev != report.Hash {
		t.Errorf("the last two are %+v, %v", last, err)
	}
	for _, path := range append(logfile.Old(o.File), o.File) {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// Only so many files are kept; the report says how many events were in the others.
func TestPrune(t *testing.T) {
	o := newLog(t)
	o.MaxFiles = 2
	write(t, o, "seven", "eight", "nine")
	report, err := Verify(t.Context(), o.File, "")
	if err != nil || len(logfile.Old(o.File)) != 1 || report.Removed == 0 || report.Removed+report.Events != 9 {
		t.Errorf("%+v, %v", report, err)
	}
	o.MaxFiles = 1
	write(t, o, "ten", "eleven")
	expect.Equal(t, len(logfile.Old(o.File)), 0, "kept")
	if report, err := Verify(t.Context(), o.File, ""); err != nil || report.Removed == 0 || report.Removed+report.Events != 11 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Events that cannot be written are counted, and the log says how many they were.
func TestLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := Open(Options{File: path})
	expect.OK(t, err)
	f := &logfile.File{Path: path}
	unlock, err := f.Lock(t.Context()) // as a process does that hangs
	expect.OK(t, err)
	const recorded = 1024 + atOnce + 100 // more than the queue has room for
	for i := range recorded {
		l.Record(Event{Action: Control, Outcome: OK, Target: fmt.Sprint(i)})
	}
	unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.Close(ctx)
	l.Close(ctx)
	last, err := lastOf(t, path, 2*recorded)
	expect.OK(t, err)
	var missing, written int
	for _, e := range last {
		if e.Action == Gap {
			var n int
			fmt.Sscanf(e.Reason, "%d events are missing", &n)
			missing += n
		} else {
			written++
		}
	}
	if missing < 100 || missing+written != recorded {
		t.Errorf("%d are written, %d said to be missing, of %d", written, missing, recorded)
	}
	_, err = Verify(t.Context(), path, "")
	expect.OK(t, err)
}

func TestRefusedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are those of Unix")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, errors.Join(
		os.WriteFile(at("open"), nil, 0o600), os.Chmod(at("open"), 0o666),
		os.WriteFile(at("victim"), nil, 0o600), os.Symlink("victim", at("link")), os.Mkdir(at("folder"), 0o700),
		os.Symlink("victim", at("locked.lock")),
	))
	for name, want := range map[string]string{"open": "other users can write", "link": "a link, which is not followed", "folder": "is a folder", "victim/x": "not a directory"} {
		if l, err := Open(Options{File: at(name)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if _, err := (&logfile.File{Path: at("locked")}).Lock(t.Context()); err == nil {
		t.Error("a link is used as the lock")
	}
}

// A file that cannot be written is tried again, and no request waits for it.
func TestUnwritable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links are those of Unix")
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := Open(Options{File: path})
	expect.OK(t, err)
	expect.OK(t, errors.Join(os.Remove(path), os.Symlink("elsewhere", path)))
	l.Record(Event{Action: Control, Outcome: OK, Target: "a"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.Close(ctx)
	expect.Equal(t, l.queue.Lost.Load(), 1, "events are missing")
	expect.OK(t, os.Remove(path))
	write(t, Options{File: path}, "b")
}

func TestCleaned(t *testing.T) {
	mask := func(s string) string { return strings.ReplaceAll(secret.Hide(s, "***"), "hunter2", "***") }
	e := Event{
		Action: Control, Outcome: Failed, Principal: "a\nb\x1b[31m", From: strings.Repeat("ü", 300),
		Target: strings.Repeat("x", 5000) + "hunter2", Reason: "the password hunter2 and Bearer abcdefghijklmnop\u202e",
	}.cleaned(mask)
	if e.Principal != "a b" || len(e.From) > maxText || !strings.HasSuffix(e.From, "ü…") || len(e.Target) != maxText || e.Reason != "the password *** and ***" {
		t.Errorf("%+v", e)
	}
	worst := strings.Repeat(`"\`, 4000)
	longest := Entry{Time: now(), Seq: 1 << 62, Prev: strings.Repeat("f", 64), Event: Event{worst, worst, worst, worst, worst, worst}.cleaned(mask)}
	if n := len(wire.Marshal(longest)); n > maxLine/2 {
		t.Errorf("the longest line has %d bytes", n)
	}
	if got := (Event{Principal: "ann (https://id.example.com/realms/x)", From: "[2001:db8::1]:443", Target: strings.Repeat("0123456789abcdef", 4)}).cleaned(mask); got.Target != strings.Repeat("0123456789abcdef", 4) || got.From != "[2001:db8::1]:443" {
		t.Errorf("%+v", got)
	}
	Recorder(nil).Record(Event{})
}

// FuzzParse checks that lines of any kind are refused or read.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05.678Z","seq":1,"prev":"","action":"edit","outcome":"ok"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parse(b)
		if err != nil {
			return
		}
		again, err := parse(wire.Marshal(e))
		if len(wire.Marshal(e)) <= maxLine && (err != nil || again.Seq != e.Seq) {
			t.Errorf("%q becomes %q: %v", b, wire.Marshal(e), err)
		}
	})
}

// A secret that says what the log says does not hide who did what: users choose some of the secrets that a mask hides.
func TestMaskLeavesWho(t *testing.T) {
	e := Event{Action: Request, Outcome: Refused, Principal: "ann at id.example", From: "192.0.2.1", Target: "/mcp/ann", Reason: "ann has no token"}
	mask := strings.NewReplacer("ann", "***", Request, "***", Refused, "***", "192.0.2.1", "***").Replace
	want := e
	want.Target, want.Reason = "/mcp/***", "*** has no token"
	expect.Equal(t, e.cleaned(mask), want)
}
