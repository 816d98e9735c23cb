package daemon

import (
	"bytes"
	"io"
	"sync"

	"go.uber.org/zap/zapcore"
)

const (
	// maxEarly bounds the lines that are kept for the first client, in bytes.
	maxEarly = 64 << 10

	// maxBehind is how many lines a client may be behind before it loses some.
	maxBehind = 1000
)

// A Log writes lines to all clients. Lines that are written while there is no client go
// to the next one. No client can hold up the writer. The zero value is ready.
type Log struct {
	mu      sync.Mutex                    // guards the fields below
	clients map[chan []byte]zapcore.Level // the least severe one that each wants
	early   []byte
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.clients) == 0 && len(l.early)+len(p) <= maxEarly {
		l.early = append(l.early, p...)
	}
	line := bytes.Clone(p)
	for c := range l.clients {
		select {
		case c <- line:
		default: // it does not read
		}
	}
	return len(p), nil
}

// Wanted reports whether a client wants lines of the level.
func (l *Log) Wanted(level zapcore.Level) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, least := range l.clients {
		if level >= least {
			return true
		}
	}
	return false
}

// Level returns the least severe level of the lines that the client wants.
func (c Client) Level() zapcore.Level {
	level, _ := zapcore.ParseLevel(c.LogLevel) // else info
	return level
}

// of returns the lines that are of the level, or more severe: a time, the level and the message, with tabs between. Other lines
// are of each level.
func of(level zapcore.Level, lines []byte) (some []byte) {
	for line := range bytes.Lines(lines) {
		_, rest, _ := bytes.Cut(line, []byte("\t"))
		name, _, _ := bytes.Cut(rest, []byte("\t"))
		if one, err := zapcore.ParseLevel(string(name)); len(name) == 0 || err != nil || one >= level {
			some = append(some, line...)
		}
	}
	return some
}

// To has lines of the level written to w until stop is called. A Write that does not return is
// abandoned.
func (l *Log) To(w io.Writer, level zapcore.Level) (stop func()) {
	lines := make(chan []byte, maxBehind)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients = make(map[chan []byte]zapcore.Level)
	}
	l.clients[lines] = level
	if len(l.early) > 0 {
		lines <- l.early
		l.early = nil
	}
	go func() {
		for line := range lines {
			if line = of(level, line); len(line) == 0 {
				continue
			}
			if _, err := w.Write(line); err != nil {
				for range lines { // discard the rest
				}
			}
		}
	}()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.clients, lines)
		close(lines)
	}
}
