package daemon

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/server"
)

// JournalSize is the size of the memory of a [Journal], in bytes. Most of it is
// never touched.
const JournalSize = stateAt + 2*maxState

const (
	journalMagic = "metarouter journal 3"

	// Where the parts of the memory begin.
	routersAt = 32 // how many routers have served the client
	tornAt    = 36 // 1 while a message is being written that a pipe may take in pieces
	stagedAt  = 37 // 1 while the stage has input that is not noted as unread yet
	movingAt  = 38 // 1 while what is in the stage for output moves on, and ends the requests in the marked slots
	unreadAt  = 40 // which half holds the unread input, and its begin and end there: 1, 31 and 32 bits
	keptAt    = 48 // which copy of the kept messages is valid: 0 or 1
	lostAt    = 56 // how many more bytes are unread, for each half
	tailAt    = 72 // the length of the tail, for each half: the unread input that does not fit
	openAt    = 80

	// A slot has the length of a request's id, and the id. The server lets in no
	// longer ids, and no more requests of one client at a time.
	maxID    = 1024
	slotSize = 2 + maxID
	slots    = 1001
	marked   = 1 << 15 // in the length of an id

	inputAt  = openAt + slots*slotSize
	maxInput = 64 << 10

	tailText = inputAt + 2*maxInput
	stageAt  = tailText + 2*maxInput
	stateAt  = stageAt + maxInput
	maxState = 128 << 10

	noSlot = -1 // as in the server

	// tornAbove is the length of messages that a pipe may take in pieces.
	tornAbove = 4 << 10

	// endOfLine is how much of a long line is in the tail, of either end.
	endOfLine = 128

	hole = server.Hole
)

// A Journal is a [server.Journal] in memory that outlives the router, such as a
// mapped file. Whenever the router is killed, the memory is in order: what is noted
// becomes valid in one write of at most 8 bytes.
type Journal struct {
	mu   sync.Mutex // guards what follows
	mem  []byte     // nil once the memory is no longer ours
	free []int16    // slots; the one that was freed last is taken first
	kept []keptMessage
	left []byte // input that another router had read, and that this one has not read again yet

	output *pipe.Stage // nil without one
	moving []int       // slots of requests whose answers another router has left in the stage for output
}

var _ server.Journal = (*Journal)(nil)

// A keptMessage is a message of the client that has a lasting effect.
type keptMessage struct {
	key  string
	line []byte
}

// NewJournal returns the journal in the memory of [JournalSize] bytes: the journal
// of another router, or an empty one. The stage outlives the router like the memory;
// without one, nil, an answer that was just being written may be written twice.
func NewJournal(mem []byte, output *pipe.Stage) *Journal {
	j := &Journal{mem: mem[:JournalSize], output: output}
	if string(mem[:len(journalMagic)]) != journalMagic {
		clear(mem[:openAt])
		copy(mem, journalMagic)
	}
	for i := slots - 1; i >= 0; i-- {
		if binary.LittleEndian.Uint16(j.slot(i)) == 0 {
			j.free = append(j.free, int16(i))
		}
	}
	return j
}

// lock locks j.mu if the journal is open.
func (j *Journal) lock() bool {
	j.mu.Lock()
	if j.mem == nil {
		j.mu.Unlock()
		return false
	}
	return true
}

// Close has the journal touch its memory no more. No Read may be under way.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mem = nil
}

// Closed reports whether the memory may be used for something else. It may not if
// the server had to abandon a Read that did not return.
func (j *Journal) Closed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mem == nil
}

func (j *Journal) slot(i int) []byte { return j.mem[openAt+i*slotSize:][:slotSize] }

// Begin notes that a request is open, and returns its slot.
func (j *Journal) Begin(id []byte) (slot int) {
	if len(id) > maxID || !j.lock() {
		return noSlot
	}
	defer j.mu.Unlock()
	if len(j.free) == 0 {
		return noSlot
	}
	last := len(j.free) - 1
	slot = int(j.free[last])
	j.free = j.free[:last]
	s := j.slot(slot)
	n := copy(s[2:], id)
	binary.LittleEndian.PutUint16(s, uint16(n))
	return slot
}

// End notes that requests are over.
func (j *Journal) End(slots ...int) {
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	j.release(slots)
}

// release frees slots. j.mu must be held.
func (j *Journal) release(slots []int) {
	for _, slot := range slots {
		if slot != noSlot {
			binary.LittleEndian.PutUint16(j.slot(slot), 0)
			j.free = append(j.free, int16(slot))
		}
	}
}

// Keep notes a message to be replayed, instead of the one with the same key; a nil
// message takes that away. A message that does not fit is not kept.
func (j *Journal) Keep(key string, line []byte) {
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	i := slices.IndexFunc(j.kept, func(m keptMessage) bool { return m.key == key })
	switch {
	case i >= 0 && line == nil:
		j.kept = slices.Delete(j.kept, i, i+1)
	case line == nil:
		return
	default:
		size := 4
		for _, m := range j.kept {
			size += len(m.key) + len(m.line) + 2
		}
		if size+len(key)+len(line)+2 > maxState {
			return
		}
		if i < 0 {
			i = len(j.kept)
			j.kept = append(j.kept, keptMessage{key: key})
		}
		j.kept[i].line = bytes.Clone(line)
	}
	next := 1 - j.mem[keptAt]&1
	area := j.mem[stateAt+int(next)*maxState:][:maxState]
	n := 4
	for _, m := range j.kept {
		n += copy(area[n:], m.key)
		area[n] = '\t' // which no key has
		n += 1 + copy(area[n+1:], m.line)
		area[n] = '\n'
		n++
	}
	binary.LittleEndian.PutUint32(area, uint32(n-4))
	j.mem[keptAt] = next
}
