package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/logfile"
)

// logFileMax is the size in bytes from which a new file is begun. The one before is kept.
const logFileMax = 1 << 20

// A LogFile holds the stderr of a server. It is rotated.
type LogFile struct {
	mu    sync.Mutex   // guards the fields below
	file  logfile.File // its path is "" if nothing is written
	begun bool
}

// NewLogFile returns the log file of the named server in the data folder dir. With ""
// as dir, nothing is written.
func NewLogFile(dir, server string) *LogFile {
	if dir == "" {
		return &LogFile{}
	}
	return &LogFile{file: logfile.File{Path: filepath.Join(dir, "logs", fileName(server)+".log"), MaxSize: logFileMax, MaxFiles: 2}}
}

// add writes whole lines. Once that fails, as on a full disk, nothing more is written.
func (l *LogFile) add(lines []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file.Path == "" || len(lines) == 0 {
		return
	}
	var err error
	if !l.begun {
		l.begun, err = true, l.file.Create()
	}
	if err == nil {
		err = l.file.Append(context.Background(), lines)
	}
	if err != nil {
		l.file.Path = ""
	}
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
