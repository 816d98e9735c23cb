package supervisor

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const (
	stderrLines   = 50
	stderrLineMax = 2 << 10
	logFileMax    = 1 << 20 // then the file is renamed to .1, and a new one begun
)

// A tail keeps the last lines that a process printed on stderr. The zero value
// is empty.
type tail struct {
	conceal func(string) string // applied to what is read from it; nil for nothing

	mu    sync.Mutex
	lines []string // at most stderrLines
}

// copy reads r to its end, into the tail and into the file.
func (t *tail) copy(r io.Reader, file *logFile) {
	lines := bufio.NewReaderSize(r, 4<<10)
	for {
		line, prefix, err := lines.ReadLine()
		if err != nil {
			return
		}
		text := string(line[:min(len(line), stderrLineMax)])
		for prefix && err == nil { // the rest of a long line
			_, prefix, err = lines.ReadLine()
		}
		t.add(text)
		file.add(text)
	}
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == stderrLines {
		t.lines = slices.Delete(t.lines, 0, 1)
	}
	t.lines = append(t.lines, line)
}

// last returns the last n lines, without secrets and without what could move the cursor
// of a terminal: they become parts of errors, which go anywhere.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	lines := slices.Clone(t.lines[max(0, len(t.lines)-n):])
	t.mu.Unlock()
	for i, line := range lines {
		if lines[i] = Plain(line); t.conceal != nil {
			lines[i] = t.conceal(lines[i])
		}
	}
	return lines
}

// escapes matches the sequences with which terminals are told of colours, titles and
// where to go.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[@-Z\\\\^_]")
})

// Plain returns the visible characters of a line, without what moves a cursor or
// colours text; tabs and spaces of whatever width are spaces.
func Plain(line string) string {
	if strings.ContainsRune(line, '\x1b') {
		line = escapes().ReplaceAllString(line, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', unicode.Is(unicode.Zs, r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, line)
}

// A logFile is a file of what a server printed on stderr, which is rotated.
type logFile struct {
	mu   sync.Mutex // guards what follows
	path string     // "": nothing is written
	file *os.File
	size int64
}

// newLogFile returns the file of the named server; with dir "" it is none.
func newLogFile(dir, server string) *logFile {
	if dir == "" {
		return &logFile{}
	}
	return &logFile{path: filepath.Join(dir, "logs", fileName(server)+".log")}
}

// add writes a line. Once that fails, as on a full disk, nothing more is written.
func (l *logFile) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path == "" || l.file == nil && l.open() != nil {
		return
	}
	n, err := fmt.Fprintln(l.file, line)
	l.size += int64(n)
	switch {
	case err != nil:
		l.file.Close()
		l.file, l.path = nil, ""
	case l.size >= logFileMax:
		l.file.Close()
		l.file = nil
		os.Rename(l.path, l.path+".1")
	}
}

// open opens the file; mu is held.
func (l *logFile) open() error {
	err := os.MkdirAll(filepath.Dir(l.path), 0o700)
	if err == nil {
		l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		l.path = ""
		return err
	}
	l.size = 0
	if info, err := l.file.Stat(); err == nil {
		l.size = info.Size()
	}
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// fileName turns a server's name into that of a file, another for each name.
func fileName(server string) string {
	safe := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, server)
	if safe != server {
		sum := sha256.Sum256([]byte(server))
		safe += "-" + hex.EncodeToString(sum[:4])
	}
	return safe
}
