package peer

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Notes are a server's violations of the protocol that are understood all the same, each once.
type Notes struct {
	mu  sync.Mutex // guards all
	all []string
}

const maxNotes = 8

// Add adds a note, the end of a sentence about the server.
func (n *Notes) Add(note string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) < maxNotes && !slices.Contains(n.all, note) {
		n.all = append(n.all, note)
	}
}

// All returns the notes.
func (n *Notes) All() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// Strays counts lines of a server that are no message.
type Strays struct {
	count atomic.Int64
	first atomic.Pointer[string]
	log   func(line []byte, why error)
}

// Skip notes a line that is no message; nil stands for a line that was not kept.
func (s *Strays) Skip(line []byte, why error) {
	s.count.Add(1)
	if text, ok := Showable(line); ok && s.first.Load() == nil {
		s.first.CompareAndSwap(nil, &text)
	}
	s.log(line, why)
}

// Count returns how many lines were skipped so far.
func (s *Strays) Count() int64 { return s.count.Load() }

// First returns the beginning of the first line that is [Showable], may be "".
func (s *Strays) First() string {
	if line := s.first.Load(); line != nil {
		return *line
	}
	return ""
}

// Showable returns the beginning of a line that is no message. It returns false if
// the line looks like a message, since it may then hold a result.
func Showable(line []byte) (string, bool) {
	if len(line) == 0 || line[0] == '{' || line[0] == '[' {
		return "", false
	}
	return strings.ToValidUTF8(string(line[:min(len(line), 200)]), ""), true
}
