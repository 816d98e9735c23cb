package process

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/plain"
)

const (
	StderrLines   = 50      // the lines that a Tail keeps
	stderrLineMax = 2 << 10 // bytes
)

// A Tail keeps the last lines that a process printed on stderr.
type Tail struct {
	hide func(string) string // replaces secrets; nil for nothing

	mu    sync.Mutex // guards lines
	lines []string   // at most StderrLines
}

// NewTail returns an empty Tail. Lines are passed through hide before they are kept or written
// to a file, and again when they are read, since control sequences may have stood within a
// secret; nil leaves them as they are.
func NewTail(hide func(string) string) *Tail { return &Tail{hide: hide} }

// Copy reads r to its end, into the tail and into the file.
func (t *Tail) Copy(r io.Reader, file *LogFile) {
	lines := bufio.NewReaderSize(r, 4<<10)
	for {
		line, prefix, err := lines.ReadLine()
		if err != nil {
			return
		}
		text := string(line)
		if t.hide != nil {
			text = t.hide(text)
		}
		text = text[:min(len(text), stderrLineMax)]
		for prefix && err == nil { // the rest of a long line
			_, prefix, err = lines.ReadLine()
		}
		t.add(text)
		file.add(text)
	}
}

func (t *Tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == StderrLines {
		t.lines = slices.Delete(t.lines, 0, 1)
	}
	t.lines = append(t.lines, line)
}

// Last returns the last n lines, without secrets and without control sequences for
// terminals: they become parts of errors, which are shown everywhere.
func (t *Tail) Last(n int) []string {
	t.mu.Lock()
	lines := slices.Clone(t.lines[max(0, len(t.lines)-n):])
	t.mu.Unlock()
	for i, line := range lines {
		if lines[i] = plain.Line(line); t.hide != nil {
			lines[i] = t.hide(lines[i])
		}
	}
	return lines
}

// Reason returns the last lines as part of a sentence that says why the process does
// not serve, "" if it printed nothing.
func (t *Tail) Reason() string {
	lines := t.Last(5)
	if len(lines) == 0 {
		return ""
	}
	text := strings.Join(lines, " | ")
	if len(text) > 1000 {
		text = "…" + strings.ToValidUTF8(text[len(text)-1000:], "")
	}
	return "; its last lines on stderr: " + text
}
