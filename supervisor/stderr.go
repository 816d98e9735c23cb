package supervisor

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	stderrLines   = 50
	stderrLineMax = 2 << 10
	logFileMax    = 1 << 20 // then the file is renamed to .1, and a new one begun
)

// A tail keeps the last lines that a server printed on stderr, and all of them
// in a file that is rotated.
type tail struct {
	path string // "": no file

	// mu guards what follows.
	mu    sync.Mutex
	lines []string // at most stderrLines
	file  *os.File
	size  int64
}

// newTail returns the tail of the named server; dir may be "".
func newTail(dir, server string) *tail {
	if dir == "" {
		return &tail{}
	}
	return &tail{path: filepath.Join(dir, "logs", fileName(server)+".log")}
}

// copy reads r to its end.
func (t *tail) copy(r io.Reader) {
	lines := bufio.NewReaderSize(r, 4<<10)
	for {
		line, prefix, err := lines.ReadLine()
		if err != nil {
			t.close()
			return
		}
		text := string(line[:min(len(line), stderrLineMax)])
		for prefix && err == nil { // the rest of a long line
			_, prefix, err = lines.ReadLine()
		}
		t.add(text)
	}
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == stderrLines {
		t.lines = slices.Delete(t.lines, 0, 1)
	}
	t.lines = append(t.lines, line)
	if t.path == "" || t.file == nil && t.open() != nil {
		return
	}
	n, err := fmt.Fprintln(t.file, line)
	t.size += int64(n)
	if err != nil || t.size >= logFileMax {
		t.file.Close()
		t.file = nil
		if err == nil {
			os.Rename(t.path, t.path+".1")
		}
	}
}

// open opens the file; mu is held.
func (t *tail) open() error {
	err := os.MkdirAll(filepath.Dir(t.path), 0o700)
	if err != nil {
		t.path = ""
		return err
	}
	if t.file, err = os.OpenFile(t.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.path = "" // a full disk is no reason to try at every line
		return err
	}
	if info, err := t.file.Stat(); err == nil {
		t.size = info.Size()
	}
	return nil
}

func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

// last returns the last n lines.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines[max(0, len(t.lines)-n):])
}

// fileName turns a server's name into that of a file.
func fileName(server string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, server)
}
