package process

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// logFileMax is the size from which the file is renamed to .1, and a new one begun.
const logFileMax = 1 << 20

// A LogFile holds the stderr of a server. It is rotated.
type LogFile struct {
	mu   sync.Mutex // guards the fields below
	path string     // "": nothing is written
	file *os.File
	size int64
}

// NewLogFile returns the log file of the named server in the data folder dir. With ""
// as dir, nothing is written.
func NewLogFile(dir, server string) *LogFile {
	if dir == "" {
		return &LogFile{}
	}
	return &LogFile{path: filepath.Join(dir, "logs", fileName(server)+".log")}
}

// add writes a line. Once that fails, as on a full disk, nothing more is written.
func (l *LogFile) add(line string) {
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

// open opens the file, but no link that somebody has put there; mu is held.
func (l *LogFile) open() error {
	err := os.MkdirAll(filepath.Dir(l.path), 0o700)
	if err == nil {
		l.file, err = safefile.Append(l.path, 0)
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

// Close closes the file.
func (l *LogFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.Close() // does nothing if it is not open
	l.file = nil
}

// unusual matches a character that the name of a file may not have.
var unusual = lazy.Regexp(`[^A-Za-z0-9._-]`)

// fileName returns the name of a server's file, which no other server has.
func fileName(server string) string {
	safe := unusual().ReplaceAllString(server, "_")
	if safe != server {
		sum := sha256.Sum256([]byte(server))
		safe += "-" + hex.EncodeToString(sum[:4])
	}
	return safe
}
