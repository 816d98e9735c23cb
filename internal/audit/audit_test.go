package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const writerVariable = "METAROUTER_TEST_AUDIT_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		writeForever(path)
	}
	goleak.VerifyTestMain(m)
}

// writeForever is the process that [TestProcesses] kills.
func writeForever(path string) {
	l, err := Open(Options{File: path, MaxSize: 2 << 10, MaxFiles: 1000})
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		l.Record(Event{Action: Control, Outcome: OK, Principal: fmt.Sprint(os.Getpid()), Target: fmt.Sprint(i)})
		time.Sleep(time.Millisecond)
	}
}

// write writes events with these targets, each with a lock of its own.
func write(t *testing.T, o Options, targets ...string) {
	t.Helper()
	f, err := newFile(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if _, err := f.append(t.Context(), []Entry{{Time: now(), Event: Event{Action: Control, Outcome: OK, Target: target}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// newLog returns the path of a log with six events, in three files.
func newLog(t *testing.T) Options {
	t.Helper()
	o := Options{File: filepath.Join(t.TempDir(), "logs", "audit.jsonl"), MaxSize: 420, MaxFiles: 10}
	write(t, o, "one", "two", "three", "four", "five", "six")
	if files := oldFiles(o.File); len(files) != 2 {
		t.Fatalf("the old files are %q", files)
	}
	return o
}

func TestChain(t *testing.T) {
	o := newLog(t)
	report, err := Verify(t.Context(), o.File, "")
	if err != nil || report.Events != 6 || report.Files != 3 || report.Removed != 0 || report.Last < report.First || len(report.Hash) != 64 {
		t.Fatalf("%+v, %v", report, err)
	}
	write(t, o, "seven")
	later, err := Verify(t.Context(), o.File, report.Hash)
	if err != nil || later.Events != 7 || later.After != 1 {
		t.Errorf("with the hash of the sixth event: %+v, %v", later, err)
	}
	last, err := Last(t.Context(), o.File, 2)
	if err != nil || len(last) != 2 || last[0].Target != "six" || last[1].Target != "seven" || last[1].Seq != 7 || last[1].Prev != report.Hash {
		t.Errorf("the last two are %+v, %v", last, err)
	}
	for _, path := range append(oldFiles(o.File), o.File) {
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
	if err != nil || report.Files != 2 || report.Removed == 0 || report.Removed+report.Events != 9 {
		t.Errorf("%+v, %v", report, err)
	}
	o.MaxFiles = 1
	write(t, o, "ten", "eleven")
	if files := oldFiles(o.File); len(files) != 0 {
		t.Errorf("kept: %q", files)
	}
	if report, err := Verify(t.Context(), o.File, ""); err != nil || report.Removed+report.Events != 11 {
		t.Errorf("%+v, %v", report, err)
	}
}

// edit changes a file.
func edit(t *testing.T, path string, change func(lines []string) []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := change(slices.Collect(strings.Lines(string(b))))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each file has two events: .1 has one and two, .2 has three and four, the current one five and six.
func TestTampering(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(t *testing.T, path string)
		want   string
	}{
		"edited byte": {func(t *testing.T, path string) {
			edit(t, path+".2", func(l []string) []string { return []string{strings.Replace(l[0], "three", "tree", 1), l[1]} })
		}, `\.2:1: the line was edited`},
		"edited at the end of a file": {func(t *testing.T, path string) {
			edit(t, path+".1", func(l []string) []string { return []string{l[0], strings.Replace(l[1], "two", "too", 1)} })
		}, `\.1:2: the line was edited`},
		"edited number": {func(t *testing.T, path string) {
			edit(t, path+".2", func(l []string) []string { return []string{strings.Replace(l[0], `"seq":3`, `"seq":4`, 1), l[1]} })
		}, `\.2:1: the line was edited: it says that it is event 4`},
		"edited hash": {func(t *testing.T, path string) {
			edit(t, path+".2", func(l []string) []string {
				return []string{regexp.MustCompile(`"prev":"..`).ReplaceAllString(l[0], `"prev":"zz`), l[1]}
			})
		}, `\.1:2: the line was edited: the line after it has the hash of another text`},
		"removed line": {func(t *testing.T, path string) {
			edit(t, path, func(l []string) []string { return l[1:] })
		}, `jsonl:1: this is event 6, but event 5 before it was removed`},
		"removed file": {func(t *testing.T, path string) {
			if err := os.Remove(path + ".2"); err != nil {
				t.Fatal(err)
			}
		}, `jsonl:1: this is event 5, but events 3 to 4 before it was`},
		"exchanged lines": {func(t *testing.T, path string) {
			edit(t, path+".2", func(l []string) []string { return []string{l[1], l[0]} })
		}, `\.2:1: this is event 4, but event 3 belongs here: lines were put into another order`},
		"repeated line": {func(t *testing.T, path string) {
			edit(t, path, func(l []string) []string { return []string{l[0], l[0], l[1]} })
		}, `jsonl:2: this is event 5, but event 6 belongs here`},
		"no JSON": {func(t *testing.T, path string) {
			edit(t, path+".1", func(l []string) []string { return []string{l[0], "{}\n"} })
		}, `\.1:2: this is no event`},
		"empty line": {func(t *testing.T, path string) {
			edit(t, path+".1", func(l []string) []string { return []string{l[0], "\n", l[1]} })
		}, `\.1:2: this is no event`},
		"long line": {func(t *testing.T, path string) {
			edit(t, path+".1", func(l []string) []string { return []string{strings.Repeat("x", 1<<20)} })
		}, `\.1:1: the line is longer`},
		"half line": {func(t *testing.T, path string) {
			edit(t, path, func(l []string) []string { return []string{l[0], l[1][:40]} })
		}, `jsonl:2: the line has no end`},
		"begun again": {func(t *testing.T, path string) {
			edit(t, path, func([]string) []string { return nil })
			for _, older := range oldFiles(path) {
				if err := os.Rename(older, older+".gone"); err != nil {
					t.Fatal(err)
				}
			}
			write(t, Options{File: path}, "other")
			for _, older := range []string{path + ".1", path + ".2"} {
				if err := os.Rename(older+".gone", older); err != nil {
					t.Fatal(err)
				}
			}
		}, `jsonl:1: this is event 1, but event 5 belongs here`},
	} {
		t.Run(name, func(t *testing.T) {
			path := newLog(t).File
			c.tamper(t, path)
			_, err := Verify(t.Context(), path, "")
			if _, ok := errors.AsType[*Fault](err); !ok || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// What the chain alone cannot show, a hash that was noted elsewhere does.
func TestNotedHash(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, path string){
		"cut at the end": func(t *testing.T, path string) {
			edit(t, path, func(l []string) []string { return l[:1] })
		},
		"forged last line": func(t *testing.T, path string) {
			edit(t, path, func(l []string) []string { return []string{l[0], strings.Replace(l[1], "six", "sex", 1)} })
		},
		"all removed": func(t *testing.T, path string) {
			for _, older := range oldFiles(path) {
				os.Remove(older)
			}
			edit(t, path, func([]string) []string { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newLog(t).File
			before, err := Verify(t.Context(), path, "")
			if err != nil {
				t.Fatal(err)
			}
			tamper(t, path)
			if _, err := Verify(t.Context(), path, ""); err != nil {
				t.Fatalf("without the hash: %v", err)
			}
			if _, err := Verify(t.Context(), path, before.Hash); err == nil || !strings.Contains(err.Error(), "no line has the hash") {
				t.Errorf("with the hash: %v", err)
			}
		})
	}
	if _, err := Verify(t.Context(), filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}

// A router that goes on after someone cut the log says so.
func TestCutWhileRunning(t *testing.T) {
	o := newLog(t)
	f, err := newFile(o)
	if err != nil {
		t.Fatal(err)
	}
	add := func(target string) {
		t.Helper()
		if _, err := f.append(t.Context(), []Entry{{Time: now(), Event: Event{Action: Control, Target: target}}}); err != nil {
			t.Fatal(err)
		}
	}
	add("seven")
	edit(t, o.File, func([]string) []string { return nil })
	add("eight")
	_, err = Verify(t.Context(), o.File, "")
	if err == nil || !strings.Contains(err.Error(), "another program had changed the log: a router wrote up to line 7") {
		t.Error(err)
	}
}

// A crash leaves an incomplete line, or no file after a rotation: the chain goes on.
func TestAfterCrash(t *testing.T) {
	o := newLog(t)
	edit(t, o.File, func(l []string) []string { return []string{l[0], l[1][:50]} })
	write(t, o, "again")
	report, err := Verify(t.Context(), o.File, "")
	if err != nil || report.Events != 7 || len(report.Gaps) != 1 || !strings.Contains(report.Gaps[0].Reason, "an incomplete line of 50 bytes was cut off") {
		t.Errorf("half a line: %+v, %v", report, err)
	}
	o = newLog(t)
	if err := os.Rename(o.File, o.File+".3"); err != nil {
		t.Fatal(err)
	}
	write(t, o, "again")
	if report, err := Verify(t.Context(), o.File, ""); err != nil || report.Events != 7 || report.Files != 4 {
		t.Errorf("between two files: %+v, %v", report, err)
	}
	o = newLog(t)
	edit(t, o.File, func(l []string) []string { return []string{l[0], "no JSON\n"} })
	write(t, o, "again")
	if _, err := Verify(t.Context(), o.File, ""); err == nil || !strings.HasSuffix(err.Error(), ".3:2: this is no event: the line was edited, or is damaged") {
		t.Errorf("a damaged last line: %v", err)
	}
	if last, err := Last(t.Context(), o.File, 2); err != nil || last[0].Action != Tampered || last[1].Target != "again" {
		t.Errorf("%+v, %v", last, err)
	}
}

// Several processes write to one log, which rotates, and are killed at any time.
func TestProcesses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is read can't be renamed there")
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	writers := func() map[string]int { // how many events each process has written
		if _, err := Verify(t.Context(), path, ""); err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "has no end") {
			t.Fatal(err)
		}
		last, err := Last(t.Context(), path, 1<<20)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all := make(map[string]int)
		for _, e := range last {
			all[e.Principal]++
		}
		return all
	}
	least := func(processes []*exec.Cmd) int {
		all, least := writers(), math.MaxInt
		for _, c := range processes {
			least = min(least, all[fmt.Sprint(c.Process.Pid)])
		}
		return least
	}
	for round := range 3 {
		var processes []*exec.Cmd
		for range 3 {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), writerVariable+"="+path)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			processes = append(processes, c)
		}
		for deadline := time.Now().Add(time.Minute); least(processes) < 10; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("round %d: %v", round, writers())
				break
			}
		}
		for _, c := range processes {
			c.Process.Kill()
			c.Wait()
		}
	}
	write(t, Options{File: path, MaxSize: 2 << 10, MaxFiles: 1000}, "last")
	report, err := Verify(t.Context(), path, "")
	if err != nil || report.Files < 3 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Events that cannot be written are counted, and the log says how many they were.
func TestLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := Open(Options{File: path})
	if err != nil {
		t.Fatal(err)
	}
	f := &file{path: path}
	unlock, err := f.lock(t.Context()) // as a process does that hangs
	if err != nil {
		t.Fatal(err)
	}
	const recorded = queued + atOnce + 100
	for i := range recorded {
		l.Record(Event{Action: Control, Outcome: OK, Target: fmt.Sprint(i)})
	}
	unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.Close(ctx)
	l.Close(ctx)
	last, err := Last(t.Context(), path, 2*recorded)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := Verify(t.Context(), path, ""); err != nil {
		t.Error(err)
	}
}

func TestRefusedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are those of Unix")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("open"), nil, 0o600), os.Chmod(at("open"), 0o666),
		os.WriteFile(at("victim"), nil, 0o600), os.Symlink("victim", at("link")), os.Mkdir(at("folder"), 0o700),
		os.Symlink("victim", at("locked.lock")),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"open": "other users can write", "link": "a link, which is not followed", "folder": "is a folder", "victim/x": "not a directory"} {
		if l, err := Open(Options{File: at(name)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if _, err := (&file{path: at("locked")}).lock(t.Context()); err == nil {
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
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.Symlink("elsewhere", path)); err != nil {
		t.Fatal(err)
	}
	l.Record(Event{Action: Control, Outcome: OK, Target: "a"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.Close(ctx)
	if n := l.missing(0); n != 1 {
		t.Errorf("%d events are missing", n)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, Options{File: path}, "b")
}

func TestCleaned(t *testing.T) {
	mask := func(s string) string { return strings.ReplaceAll(hideForms(s), "hunter2", "***") }
	e := Event{
		Action: Control, Outcome: Failed, Principal: "a\nb\x1b[31m", From: strings.Repeat("ü", 300),
		Target: strings.Repeat("x", 5000) + "hunter2", Reason: "the password hunter2 and Bearer abcdefghijklmnop\u202e",
	}.cleaned(mask)
	if e.Principal != "a b" || len(e.From) > maxText || !strings.HasSuffix(e.From, "ü…") || len(e.Target) != maxText || e.Reason != "the password *** and ***" {
		t.Errorf("%+v", e)
	}
	worst := strings.Repeat(`"\`, 4000)
	longest := Entry{Time: now(), Seq: 1 << 62, Prev: strings.Repeat("f", 64), Event: Event{worst, worst, worst, worst, worst, worst}.cleaned(mask)}
	if n := len(longest.line()); n > maxLine/2 {
		t.Errorf("the longest line has %d bytes", n)
	}
	if got := (Event{Principal: "ann (https://id.example.com/realms/x)", From: "[2001:db8::1]:443", Target: strings.Repeat("0123456789abcdef", 4)}).cleaned(mask); got.Target != strings.Repeat("0123456789abcdef", 4) || got.From != "[2001:db8::1]:443" {
		t.Errorf("%+v", got)
	}
	var none Recorder
	none.Record(Event{})
}

// FuzzParse checks that lines of any kind are refused or read.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05.678Z","seq":1,"prev":"","action":"edit","outcome":"ok"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parse(b)
		if err != nil {
			return
		}
		again, err := parse(e.line())
		if len(e.line()) <= maxLine && (err != nil || again.Seq != e.Seq) {
			t.Errorf("%q becomes %q: %v", b, e.line(), err)
		}
	})
}
