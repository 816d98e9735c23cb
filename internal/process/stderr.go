package process

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/plain"
)

const (
	StderrLines   = 50      // the lines that a Tail keeps
	stderrLineMax = 2 << 10 // bytes
	stderrRate    = 1 << 20 // bytes a second that are read, for long and at once: a flood would cost a core
)

// A Tail keeps the last lines that a process printed on stderr.
type Tail struct {
	hide func(string) string // replaces secrets

	mu    sync.Mutex   // guards lines
	lines []stderrLine // at most StderrLines
}

type stderrLine struct {
	text string
	came time.Time
}

// NewTail returns an empty Tail. Lines are passed through hide before they are kept or written to a
// file, and again when they are read, since control sequences may have stood within a secret.
func NewTail(hide func(string) string) *Tail { return &Tail{hide: hide} }

// Copy reads r to its end, into the tail and into the file. The file gets the lines that came at once in one piece, since a write
// to it takes as long as many lines do.
func (t *Tail) Copy(r io.Reader, file *LogFile) {
	lines := bufio.NewReaderSize(paced{r, rate.NewLimiter(stderrRate, stderrRate)}, 4<<10)
	var unwritten []byte // lines
	for {
		if next, _ := lines.Peek(lines.Buffered()); !bytes.Contains(next, []byte("\n")) { // the next line may be long in coming
			file.add(unwritten)
			unwritten = unwritten[:0]
		}
		line, prefix, err := lines.ReadLine()
		if err != nil {
			return
		}
		text := t.hide(string(line))
		text = text[:min(len(text), stderrLineMax)]
		for prefix && err == nil { // the rest of a long line
			_, prefix, err = lines.ReadLine()
		}
		t.add(text)
		unwritten = append(append(unwritten, text...), '\n')
	}
}

// paced reads no faster than its limiter allows. The process that prints more waits, and nothing is lost.
type paced struct {
	io.Reader
	*rate.Limiter
}

func (p paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	time.Sleep(p.ReserveN(time.Now(), n).Delay())
	return n, err
}

func (t *Tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == StderrLines {
		t.lines = slices.Delete(t.lines, 0, 1)
	}
	t.lines = append(t.lines, stderrLine{line, time.Now()})
}

// Last returns the last n lines, without secrets and without control sequences for
// terminals: they become parts of errors, which are shown everywhere.
func (t *Tail) Last(n int) []string {
	return t.after(time.Time{}, n)
}

// after returns the last n lines that came after a time, as Last does.
func (t *Tail) after(since time.Time, n int) (texts []string) {
	t.mu.Lock()
	lines := slices.Clone(t.lines[max(0, len(t.lines)-n):])
	t.mu.Unlock()
	for _, line := range lines {
		if !line.came.After(since) {
			continue
		}
		texts = append(texts, t.hide(plain.Line(line.text)))
	}
	return texts
}

// Reason returns the last lines as part of a sentence that says why the process does
// not serve, "" if it printed nothing.
func (t *Tail) Reason() string { return reason(t.Last(5)) }

// Recent is like Reason and Last, but for lines of the last seconds alone: lines before have nothing to do
// with the end of a process that was killed.
func (t *Tail) Recent() (why string, lines []string) {
	const recent = 10 * time.Second
	lines = t.after(time.Now().Add(-recent), StderrLines)
	return reason(lines[max(0, len(lines)-5):]), lines
}

func reason(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	text := strings.Join(lines, " | ")
	if len(text) > 1000 {
		text = "…" + strings.ToValidUTF8(text[len(text)-1000:], "")
	}
	return "; its last lines on stderr: " + text
}
