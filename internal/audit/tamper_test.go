package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// edit changes a file.
func edit(t *testing.T, path string, change func(lines []string) []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	expect.OK(t, err)
	lines := change(slices.Collect(strings.Lines(string(b))))
	expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
}

// Each file has two events: .1 has one and two, .2 has three and four, the current one five and six.
func TestTampering(t *testing.T) {
	replace := func(i int, old, new string) func(l []string) []string {
		return func(l []string) []string { l[i] = strings.Replace(l[i], old, new, 1); return l }
	}
	for name, c := range map[string]struct {
		file   string                        // that is changed, behind the path of the log
		change func(lines []string) []string // nil for none
		tamper func(path string) error       // more; nil for none
		want   string
	}{
		"edited byte":                 {".2", replace(0, "three", "tree"), nil, `\.2:2: it has the hash of another text than event 3`},
		"edited at the end of a file": {".1", replace(1, "two", "too"), nil, `\.2:1: it has the hash of another text than event 2`},
		"edited number":               {".2", replace(0, `"seq":3`, `"seq":4`), nil, `\.2:1: this is event 4, but event 3 belongs here`},
		"edited hash": {".2", func(l []string) []string {
			return []string{regexp.MustCompile(`"prev":"..`).ReplaceAllString(l[0], `"prev":"zz`), l[1]}
		}, nil, `\.2:1: it has the hash of another text than event 2 before it has: one of the two was edited`},
		"removed line":         {"", func(l []string) []string { return l[1:] }, nil, `jsonl:1: this is event 6, but event 5 belongs here: lines were removed`},
		"removed at the begin": {".1", func(l []string) []string { return l[1:] }, nil, `\.1:1: this is event 2, but the log begins with it`},
		"removed at the begin of a log with one file": {"", func(l []string) []string { return l[1:] }, func(path string) error {
			return errors.Join(os.Remove(path+".1"), os.Remove(path+".2"))
		}, `jsonl:1: this is event 6, but the log begins with it`},
		"removed file": {"", nil, func(path string) error { return os.Remove(path + ".2") }, `jsonl:1: this is event 5, but event 3 belongs here`},
		"exchanged lines": {".2", func(l []string) []string {
			return []string{l[1], l[0]}
		}, nil, `\.2:1: this is event 4, but event 3 belongs here: lines were removed, repeated, or put into another order`},
		"repeated line": {"", func(l []string) []string { return []string{l[0], l[0], l[1]} }, nil, `jsonl:2: this is event 5, but event 6 belongs here`},
		"no JSON":       {".1", func(l []string) []string { return []string{l[0], "{}\n"} }, nil, `\.1:2: this is no event`},
		"empty line":    {".1", func(l []string) []string { return []string{l[0], "\n", l[1]} }, nil, `\.1:2: this is no event`},
		"long line":     {".1", func([]string) []string { return []string{strings.Repeat("x", 1<<20)} }, nil, `\.1:1: the line is longer`},
		"half line":     {"", func(l []string) []string { return []string{l[0], l[1][:40]} }, nil, `jsonl:2: the line has no end`},
		"begun again": {"", nil, func(path string) error {
			other := filepath.Join(t.TempDir(), "other")
			write(t, Options{File: other}, "other")
			return os.Rename(other, path)
		}, `jsonl:1: this is event 1, but event 5 belongs here`},
	} {
		t.Run(name, func(t *testing.T) {
			path := newLog(t).File
			if c.change != nil {
				edit(t, path+c.file, c.change)
			}
			if c.tamper != nil {
				expect.OK(t, c.tamper(path))
			}
			_, err := Verify(t.Context(), path, "")
			if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
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
			for _, older := range logfile.Old(path) {
				os.Remove(older)
			}
			edit(t, path, func([]string) []string { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newLog(t).File
			before, err := Verify(t.Context(), path, "")
			expect.OK(t, err)
			tamper(t, path)
			_, err = Verify(t.Context(), path, "")
			expect.OK(t, err, "without the hash")
			_, err = Verify(t.Context(), path, before.Hash)
			expect.Error(t, err, "no line has the hash", "with the hash")
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
	expect.OK(t, err)
	add := func(target string) {
		t.Helper()
		expect.OK(t, f.append(t.Context(), []Entry{{Time: now(), Event: Event{Action: Control, Target: target}}}))
	}
	add("seven")
	edit(t, o.File, func([]string) []string { return nil })
	add("eight")
	_, err = Verify(t.Context(), o.File, "")
	expect.Error(t, err, "another program had changed the log: a router wrote up to line 7")
}

// A crash leaves an incomplete line, or no file after a rotation: the chain goes on.
func TestAfterCrash(t *testing.T) {
	o := newLog(t)
	edit(t, o.File, func(l []string) []string { return []string{l[0], l[1][:50]} })
	write(t, o, "again")
	report, err := Verify(t.Context(), o.File, "")
	if err != nil || report.Events != 7 || len(report.Gaps) != 1 || !strings.Contains(report.Gaps[0], "an incomplete line of 50 bytes was cut off") {
		t.Errorf("half a line: %+v, %v", report, err)
	}
	o = newLog(t)
	expect.OK(t, os.Rename(o.File, o.File+".3"))
	write(t, o, "again")
	if report, err := Verify(t.Context(), o.File, ""); err != nil || report.Events != 7 || len(logfile.Old(o.File)) != 3 {
		t.Errorf("between two files: %+v, %v", report, err)
	}
	o = newLog(t)
	edit(t, o.File, func(l []string) []string { return []string{l[0], "no JSON\n"} })
	write(t, o, "again")
	if _, err := Verify(t.Context(), o.File, ""); err == nil || !strings.HasSuffix(err.Error(), ".3:2: this is no event: the line was edited, or is damaged") {
		t.Errorf("a damaged last line: %v", err)
	}
	if last, err := lastOf(t, o.File, 2); err != nil || last[0].Action != Tampered || last[1].Target != "again" {
		t.Errorf("%+v, %v", last, err)
	}
}
