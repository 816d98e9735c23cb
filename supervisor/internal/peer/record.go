package peer

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Record has a server's violations of the protocol.
type Record struct {
	log func(line []byte, why error) // of lines that are no message

	mu  sync.Mutex // guards all
	all Violations
}

// Violations are what a [Record] has so far.
type Violations struct {
	Strays   int64           // lines that were no message, and were skipped
	Stray    string          // the beginning of the first one that is [Showable]
	Notes    []string        // violations that are understood all the same, each once, as ends of sentences about the server
	Unusable status.Unusable // messages that could not be passed on
}

// All returns the violations.
func (r *Record) All() Violations {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	all.Notes = slices.Clone(all.Notes)
	return all
}

const maxNotes = 8

// Note adds a note.
func (r *Record) Note(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all.Notes) < maxNotes && !slices.Contains(r.all.Notes, note) {
		r.all.Notes = append(r.all.Notes, note)
	}
}

// Skip notes a line that is no message; nil stands for a line that was not kept.
func (r *Record) Skip(line []byte, why error) {
	r.log(line, why)
	text, _ := Showable(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Strays++
	if r.all.Stray == "" {
		r.all.Stray = text
	}
}

// unusable counts a message that can't be passed on.
func (r *Record) unusable(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := &r.all.Unusable.Invalid
	switch {
	case errors.Is(cause, wire.ErrNotUTF8):
		count = &r.all.Unusable.NotUTF8
	case errors.Is(cause, wire.ErrTooDeep):
		count = &r.all.Unusable.TooDeep
	case errors.Is(cause, wire.ErrTooLong):
		count = &r.all.Unusable.TooLong
	}
	*count++
}

// Showable returns the beginning of a line that is no message. It returns false if
// the line looks like a message, since it may then hold a result.
func Showable(line []byte) (string, bool) {
	if len(line) == 0 || line[0] == '{' || line[0] == '[' {
		return "", false
	}
	return strings.ToValidUTF8(string(line[:min(len(line), 200)]), ""), true
}
