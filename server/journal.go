package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// JournalSize is the size of the memory of a [Journal], in bytes. Most of it is
// never touched.
const JournalSize = stateAt + 2*maxState

const (
	journalMagic = "metarouter journal 1"

	livesAt  = 32 // how many routers have served the client
	tornAt   = 36 // 1 while something is being written that may come out in pieces
	unreadAt = 40 // which half, where in it what is unread begins and ends: 1, 31 and 32 bits
	stagedAt = 37 // 1 while the stage has what is not noted as unread yet
	keptAt   = 48 // which copy of the kept messages is valid: 0 or 1
	lostAt   = 56 // how much more is unread, for each half
	tailAt   = 72 // how long the tail is, likewise: what does not fit of the unread
	openAt   = 80

	slotSize = 2 + maxID // of one open request: the length of its id, and the id
	slots    = maxInFlight + 1

	inputAt  = openAt + slots*slotSize
	maxInput = 64 << 10

	tailText = inputAt + 2*maxInput
	stageAt  = tailText + 2*maxInput
	stateAt  = stageAt + maxInput
	maxState = 128 << 10

	noSlot = -1

	// tornAbove is the length of messages that a pipe may take in pieces.
	tornAbove = 4 << 10

	// endOfLine is how much of a long line is in the tail, of either end.
	endOfLine = 128

	// hole stands where bytes of the input are missing. No JSON has it.
	hole = 0
)

// A Journal has what another router needs to go on serving a client of a router
// that was killed: which requests are open, what the client said at its beginning,
// and what was read from it and not looked at yet. It is kept in memory that
// outlives the router, such as a mapped file. All methods may be called on nil and
// after close, and then do nothing.
type Journal struct {
	mu   sync.Mutex // guards what follows
	mem  []byte     // nil once the memory is no longer ours
	free []int16    // slots; the one that was freed last is taken first
	kept []keptMessage
	left []byte // of what another router has read and not looked at: what is not read again yet
}

// A keptMessage is one of the client's that has lasting effect.
type keptMessage struct {
	key  string
	line []byte
}

// NewJournal returns the journal in the memory, of [JournalSize] bytes: what
// another wrote there, or an empty one.
func NewJournal(mem []byte) *Journal {
	j := &Journal{mem: mem[:JournalSize]}
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

// lock locks j.mu, if there is a journal and it is open.
func (j *Journal) lock() bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	if j.mem == nil {
		j.mu.Unlock()
		return false
	}
	return true
}

// close has the journal touch its memory no more. There must be no Read under way.
func (j *Journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mem = nil
}

// Closed reports whether the memory may be used for something else. It may not if
// Serve had to leave a Read behind that did not return.
func (j *Journal) Closed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mem == nil
}

func (j *Journal) slot(i int) []byte { return j.mem[openAt+i*slotSize:][:slotSize] }

// begin notes that a request is open, and returns its slot, for end.
func (j *Journal) begin(id []byte) (slot int) {
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

// end notes that requests are answered, or need no answer.
func (j *Journal) end(slots ...int) {
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

// writing notes that n bytes are being written to the client.
func (j *Journal) writing(n int) {
	if n > tornAbove && j.lock() {
		defer j.mu.Unlock()
		j.mem[tornAt] = 1
	}
}

// wrote notes that they were, and with them the answers to these requests.
func (j *Journal) wrote(slots []int) {
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	j.mem[tornAt] = 0
	j.release(slots)
}

// keep notes a message to be replayed, in place of the one with the same key; nil
// takes that away. What does not fit is not kept.
func (j *Journal) keep(key string, line []byte) {
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
			size += len(m.line) + 1
		}
		if size+len(line)+1 > maxState {
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
		n += copy(area[n:], m.line)
		area[n] = '\n'
		n++
	}
	binary.LittleEndian.PutUint32(area, uint32(n-4))
	j.mem[keptAt] = next
}

// input returns in, of which everything that is read is noted until passed, behind
// what another router has read and is noted already.
func (j *Journal) input(in io.Reader, left []byte) io.Reader {
	if j == nil {
		return in
	}
	j.left = left
	return &journaled{in, j}
}

type journaled struct {
	io.Reader
	journal *Journal
}

// Read reads by way of the stage, which is zero where nothing was read: so that
// what is read is never in this process alone, not even before its length is known.
func (r *journaled) Read(p []byte) (int, error) {
	j := r.journal
	j.mu.Lock()
	if len(j.left) > 0 {
		defer j.mu.Unlock()
		n := copy(p, j.left)
		j.left = j.left[n:]
		return n, nil
	}
	stage := j.mem[stageAt:][:min(len(p), maxInput)]
	j.mem[stagedAt] = 1
	j.mu.Unlock()
	n, err := r.Reader.Read(stage)
	n = copy(p, stage[:max(n, 0)])
	j.mu.Lock()
	defer j.mu.Unlock()
	j.noteInput(stage[:n])
	j.mem[stagedAt] = 0
	clear(stage[:n])
	return n, err
}

// passed notes that the lines returned by the reader since are open requests now,
// or done with.
func (j *Journal) passed(r *wire.Reader) {
	n := r.Passed()
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	half, start, end, lost := j.unread()
	if known := end - start; n <= known {
		j.setUnread(half, start+n, end, lost)
		return
	}
	j.noteBehind(1-half, 0, 0, 0, slices.Concat(r.Buffered(), j.left)) // what was noted holds until this is
}

// noteInput notes what was read. j.mu must be held, as for what follows.
func (j *Journal) noteInput(p []byte) {
	half, start, end, lost := j.unread()
	j.noteBehind(half, start, end, lost, p)
}

// noteBehind notes p behind what is unread of a half.
func (j *Journal) noteBehind(half, start, end, lost int, p []byte) {
	n := 0
	if lost == 0 {
		if end+len(p) > maxInput && start > 0 { // on to the other half
			unread := j.mem[inputAt+half*maxInput:][start:end]
			half = 1 - half
			start, end = 0, copy(j.mem[inputAt+half*maxInput:], unread)
		}
		n = copy(j.mem[inputAt+half*maxInput:][end:maxInput], p)
		j.setTail(half, nil)
	}
	if n < len(p) {
		j.noteTail(half, p[n:])
	}
	j.setUnread(half, start, end+n, lost+len(p)-n)
}

// noteTail notes what does not fit, and of long lines only where they begin and end
// if that does not either.
func (j *Journal) noteTail(half int, p []byte) {
	tail := j.tail(half)
	if len(tail)+len(p) > maxInput {
		tail, p = abridged(tail), abridged(p)
	}
	tail = append(tail, p...)
	if len(tail) > maxInput {
		tail = append(tail[:maxInput-1], hole)
	}
	j.setTail(half, tail)
}

// abridged returns the lines with a hole in each that is long.
func abridged(lines []byte) (short []byte) {
	for line := range bytes.Lines(lines) {
		if len(line) > 2*endOfLine {
			short = append(append(short, line[:endOfLine]...), hole)
			line = line[len(line)-endOfLine:]
		}
		short = append(short, line...)
	}
	return short
}

func (j *Journal) tail(half int) []byte {
	n := min(maxInput, binary.LittleEndian.Uint32(j.mem[tailAt+4*half:]))
	return bytes.Clone(j.mem[tailText+half*maxInput:][:n])
}

func (j *Journal) setTail(half int, tail []byte) {
	n := copy(j.mem[tailText+half*maxInput:][:maxInput], tail)
	binary.LittleEndian.PutUint32(j.mem[tailAt+4*half:], uint32(n))
}

func (j *Journal) unread() (half, start, end, lost int) {
	word := binary.LittleEndian.Uint64(j.mem[unreadAt:])
	half = int(word >> 63)
	return half, int(word>>32) & (1<<31 - 1), int(uint32(word)), int(binary.LittleEndian.Uint64(j.mem[lostAt+8*half:]))
}

// setUnread writes each of its two words at once, so that they are never half
// written.
func (j *Journal) setUnread(half, start, end, lost int) {
	if start == end {
		start, end = 0, 0
	}
	binary.LittleEndian.PutUint64(j.mem[lostAt+8*half:], uint64(lost))
	binary.LittleEndian.PutUint64(j.mem[unreadAt:], uint64(half)<<63|uint64(start)<<32|uint64(end))
}

// An estate is what a router that was killed left in a journal.
type estate struct {
	lives  uint32         // routers before
	torn   bool           // what it wrote last may be incomplete
	open   map[int][]byte // ids of requests that were not answered, by their slots
	kept   []wire.Message // to be replayed
	begun  [][]byte       // ids of further ones, of a batch that it had begun to let in
	unread []byte         // what it read of the input, and did not look at
}

// isOpen reports whether a request of the id was not answered.
func (e *estate) isOpen(id []byte) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(e.open)), func(open []byte) bool { return bytes.Equal(open, id) })
}

// idsOfLine returns the id of the request, or those of the batch.
func idsOfLine(line []byte) (ids [][]byte) {
	entries, err := split(line, defaultMaxBatch)
	if err != nil {
		entries = [][]byte{line}
	}
	for _, entry := range entries {
		if m, err := wire.Parse(entry); err == nil && m.IsRequest() {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// inherit returns what a router before has left in the journal, nil if there was
// none. It stays there until it is dealt with, since this router may be killed too.
func (j *Journal) inherit() *estate {
	if !j.lock() {
		return nil
	}
	defer j.mu.Unlock()
	lives := binary.LittleEndian.Uint32(j.mem[livesAt:])
	binary.LittleEndian.PutUint32(j.mem[livesAt:], lives+1)
	if lives == 0 {
		return nil
	}
	e := &estate{lives: lives, torn: j.mem[tornAt] == 1, open: make(map[int][]byte)}
	for i := range slots {
		s := j.slot(i)
		if n := binary.LittleEndian.Uint16(s); n > 0 {
			e.open[i] = bytes.Clone(s[2:][:min(n, maxID)])
		}
	}
	area := j.mem[stateAt+int(j.mem[keptAt]&1)*maxState:][:maxState]
	kept := area[4:][:min(int(binary.LittleEndian.Uint32(area)), maxState-4)]
	for line := range bytes.Lines(kept) {
		line = bytes.Clone(bytes.TrimSpace(line))
		if m, err := wire.Parse(line); err == nil {
			key, _ := lasting(m)
			j.kept = append(j.kept, keptMessage{key, line})
			e.kept = append(e.kept, m)
		}
	}
	if j.mem[stagedAt] == 1 {
		stage := j.mem[stageAt:][:maxInput]
		if n := bytes.IndexByte(stage, 0); n >= 0 {
			stage = stage[:n]
		}
		j.noteInput(stage)
		j.mem[stagedAt] = 0
	}
	clear(j.mem[stageAt:][:maxInput])
	half, start, end, lost := j.unread()
	if start < end && end <= maxInput {
		e.unread = bytes.Clone(j.mem[inputAt+half*maxInput:][start:end])
	}
	if lost > 0 {
		e.unread = append(append(e.unread, hole), j.tail(half)...)
	}
	if i := bytes.IndexByte(e.unread, '\n'); i >= 0 && lost == 0 { // begun, and then killed before that was noted
		if ids := idsOfLine(e.unread[:i]); slices.ContainsFunc(ids, e.isOpen) {
			e.begun = slices.DeleteFunc(ids, e.isOpen)
			e.unread = e.unread[i+1:]
			j.setUnread(half, start+i+1, end, 0)
		}
	}
	return e
}
