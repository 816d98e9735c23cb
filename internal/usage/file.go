package usage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// saveDelay is the time from the first use that is not saved until it is saved, so that
// many uses are one write.
const saveDelay = 5 * time.Second

const version = 1

// A head is the first line of the file.
type head struct {
	Version int   `json:"usage"`
	Cleared int64 `json:"cleared,omitempty"`
}

// A line is the record of a tool in the file, one a line.
type line struct {
	Tool     string `json:"tool"`
	Calls    int    `json:"calls,omitempty"`
	Failures int    `json:"failures,omitempty"`
	Queries  []past `json:"queries"`
}

type past struct {
	Typed string   `json:"typed,omitempty"` // older files lack it
	Words []string `json:"words"`
	Marks []mark   `json:"marks"`
}

// Open returns the lessons learned under the configuration of these files, and saves
// new lessons to a file in the folder "usage" of the data directory dir. File and
// folders need not exist. With dir "" everything stays in memory. The damaged part of a
// file is dropped with a warning in the log. A file that cannot be read is an error.
func Open(dir string, files []string, log *zap.Logger) (*Store, error) {
	config := strings.Join(files, "\n")
	s := &Store{config: config, log: log.Named("usage"), wake: make(chan struct{}, 1), open: openOwn, memory: newMemory(0)}
	if dir == "" {
		return s, nil
	}
	sum := sha256.Sum256([]byte(config))
	s.path = filepath.Join(dir, "usage", hex.EncodeToString(sum[:16])+".jsonl")
	if err := s.read(); err != nil {
		return nil, fmt.Errorf("open usage: %w", err)
	}
	return s, nil
}

func openOwn(path string) (*os.File, error) { return safefile.OpenOwn(path, os.O_RDONLY) }

// Run saves new lessons, a few seconds later, until ctx ends, and then the rest. Other
// routers may save to the same file: each reads the lessons of the others. A router that
// ends while another saves may lose its latest ones. The error is from the last save.
func (s *Store) Run(ctx context.Context) error {
	if s == nil || s.path == "" {
		<-ctx.Done()
		return nil
	}
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return s.save()
		}
		select {
		case <-time.After(saveDelay):
		case <-ctx.Done():
			return s.save()
		}
		if err := s.save(); err != nil {
			s.log.Warn("can't save what was learned from use", zap.Error(err))
		}
	}
}

// Clear forgets all, on disk as well. Other routers that share the file forget
// it when they save next.
func (s *Store) Clear() error {
	if s == nil {
		return nil
	}
	s.file.Lock()
	defer s.file.Unlock()
	s.mu.Lock()
	s.memory = newMemory(time.Now().UnixMilli())
	s.mu.Unlock()
	if s.path == "" {
		return nil
	}
	if err := s.write(); err != nil {
		return fmt.Errorf("clear usage: %w", err)
	}
	return nil
}

// save merges new lessons, if any, with the file.
func (s *Store) save() error {
	s.file.Lock()
	defer s.file.Unlock()
	s.mu.RLock()
	learned := s.learned
	s.mu.RUnlock()
	if !learned {
		return nil
	}
	if err := s.read(); err != nil {
		return fmt.Errorf("save usage: %w", err)
	}
	if err := s.write(); err != nil {
		return fmt.Errorf("save usage: %w", err)
	}
	return nil
}

// read takes over the lessons in the file. s.file must be held.
func (s *Store) read() error {
	f, err := s.open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if sum == s.known {
		return nil
	}
	s.known = sum
	h, lines, err := decode(data)
	if err != nil {
		s.log.Warn("dropped the damaged part of what was learned from use", zap.String("file", s.path), zap.Error(err))
	}
	now := time.Now().UnixMilli()
	s.mu.Lock()
	s.memory.forget(min(h.Cleared, now))
	s.mu.Unlock()
	for _, l := range lines {
		s.mu.Lock() // for each, so that no caller waits for all
		s.memory.absorb(l, now)
		s.mu.Unlock()
	}
	return nil
}

// write replaces the file. s.file must be held.
func (s *Store) write() error {
	s.mu.RLock()
	h, lines := head{version, s.memory.cleared}, s.memory.lines()
	s.mu.RUnlock()
	data, err := encode(h, ranked(lines, time.Now().UnixMilli()))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(s.path, data, false); err != nil {
		return err
	}
	s.known = sha256.Sum256(data)
	return nil
}

// ranked returns the lines that still count, the strongest tools and queries
// first.
func ranked(lines []line, at int64) []line {
	for i := range lines {
		l := &lines[i]
		for j := range l.Queries {
			l.Queries[j].Marks = living(l.Queries[j].Marks, 0, at)
		}
		l.Queries = slices.DeleteFunc(l.Queries, func(q past) bool { return len(q.Marks) == 0 })
		slices.SortStableFunc(l.Queries, func(a, b past) int { return compare(b.Marks, a.Marks, at) })
	}
	lines = slices.DeleteFunc(lines, func(l line) bool { return len(l.Queries) == 0 })
	strengths := make(map[string]float64, len(lines))
	for _, l := range lines {
		strengths[l.Tool] = math.Abs(strength(l.Queries[0].Marks, at))
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(strengths[b.Tool], strengths[a.Tool]), cmp.Compare(a.Tool, b.Tool))
	})
	return lines
}

// encode returns the file, with as many lines as fit.
func encode(h head, lines []line) ([]byte, error) {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(h); err != nil {
		return nil, err
	}
	for _, l := range lines {
		before := b.Len()
		if err := to.Encode(l); err != nil {
			return nil, err
		}
		if b.Len() > maxBytes {
			b.Truncate(before)
			break
		}
	}
	return b.Bytes(), nil
}

// decode returns the lines of a file before the first damaged one, which err describes.
func decode(data []byte) (h head, lines []line, err error) {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if err := json.Unmarshal(first, &h); err != nil {
		return head{}, nil, fmt.Errorf("first line: %w", err)
	}
	if h.Version != version {
		return head{}, nil, fmt.Errorf("version %d is not %d", h.Version, version)
	}
	for text := range bytes.Lines(rest) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return h, lines, fmt.Errorf("tool %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return h, lines, nil
}

// hash returns the stored form of a client. It cannot be compared between configurations.
func (s *Store) hash(client string) uint32 {
	sum := sha256.Sum256([]byte(s.config + "\x00" + client))
	return binary.BigEndian.Uint32(sum[:])
}
