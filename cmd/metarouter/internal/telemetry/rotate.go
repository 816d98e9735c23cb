package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// A rotated file is a log of bounded size. When it is full, it is renamed to its name with
// the time, a new one is created, and the oldest are removed. Other processes may do the
// same with the same file, and other programs may move it: it is not kept open between two
// writes, and no name is used twice, so no process overwrites a file that another one has kept.
// It is a regular file and no link: a link that was put there would choose another file. It
// belongs to one goroutine.
type rotated struct {
	options config.AccessLog
	torn    bool // the last line is incomplete
}

// openRotated creates the file and its folder, and fails if it can't be written. It returns nil if the
// configuration names no file.
func openRotated(o config.AccessLog) (*rotated, error) {
	if o.File == "" {
		return nil, nil
	}
	err := os.MkdirAll(filepath.Dir(o.File), 0o700)
	if err == nil {
		var file *os.File
		file, err = safefile.Append(o.File, 0)
		file.Close() // does nothing after a failure
	}
	if err != nil {
		return nil, fmt.Errorf("metarouter.accessLog: %w", err)
	}
	return &rotated{options: o}, nil
}

// write writes whole lines with one system call, so that lines of several processes do not
// mix.
func (r *rotated) write(lines []byte) error {
	file, err := safefile.Append(r.options.File, 0)
	if err != nil {
		return err
	}
	defer func() { file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > 0 && size+int64(len(lines)) > r.options.MaxSize {
		file.Close() // Windows does not rename open files
		r.shift()
		r.torn = false
		if file, err = safefile.Append(r.options.File, 0); err != nil {
			return err
		}
	}
	if r.torn && size > 0 { // else the next line could not be read either
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := file.Write(lines)
	r.torn = n > 0 && err != nil || n == 0 && r.torn
	return err
}

// rotatedAt is the format of the time in the name of an old file. Names sort by time.
const rotatedAt = "20060102T150405.000000000"

// shift renames the file and removes the oldest ones. If that fails, the file goes on.
func (r *rotated) shift() {
	file := r.options.File
	name := fmt.Sprintf("%s.%s-%d", file, time.Now().UTC().Format(rotatedAt), os.Getpid())
	if os.Rename(file, name) != nil {
		return
	}
	old := old(file)
	for len(old) >= r.options.MaxFiles {
		os.Remove(old[0])
		old = old[1:]
	}
}

// old returns the old files of a log, the oldest first.
func old(file string) (names []string) {
	folder, base := filepath.Split(file)
	entries, err := os.ReadDir(filepath.Clean(folder))
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), base+".")
		at, _, numbered := strings.Cut(rest, "-")
		if _, err := time.Parse(rotatedAt, at); ok && numbered && err == nil {
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	return names // as ReadDir sorts them
}
