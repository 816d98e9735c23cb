package daemon

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server"
)

// Open returns a reader of in that notes what is read, and what the router before
// has left, nil if there was none. That stays in the journal until this router has
// dealt with it, since this router may be killed too.
func (j *Journal) Open(in io.Reader) (io.Reader, *server.Inherited) {
	if !j.lock() {
		return in, nil
	}
	defer j.mu.Unlock()
	r := &journaled{in, j}
	routers := binary.LittleEndian.Uint32(j.mem[routersAt:])
	binary.LittleEndian.PutUint32(j.mem[routersAt:], routers+1)
	if routers == 0 {
		return r, nil
	}
	e := &server.Inherited{Routers: routers}
	e.Open, e.Torn = j.inheritOutput()
	area := j.mem[stateAt+int(j.mem[keptAt]&1)*maxState:][:maxState]
	kept := area[4:][:min(int(binary.LittleEndian.Uint32(area)), maxState-4)]
	for line := range bytes.Lines(kept) {
		key, line, _ := bytes.Cut(bytes.Clone(bytes.TrimSpace(line)), []byte{'\t'})
		if m, err := wire.Parse(line); err == nil {
			j.kept = append(j.kept, keptMessage{string(key), line})
			e.Kept = append(e.Kept, m)
		}
	}
	if j.mem[stagedAt] == 1 {
		stage := j.mem[stageAt:][:maxInput]
		if n := bytes.IndexByte(stage, 0); n >= 0 {
			stage = stage[:n]
		}
		unread(j.mem).add(stage)
		j.mem[stagedAt] = 0
	}
	clear(j.mem[stageAt:][:maxInput])
	input := unread(j.mem)
	half, start, end, lost := input.bounds()
	if start < end && end <= maxInput {
		e.Unread = bytes.Clone(j.mem[inputAt+half*maxInput:][start:end])
	}
	if lost > 0 {
		e.Unread = append(append(e.Unread, hole), input.tail(half)...)
	}
	if i := bytes.IndexByte(e.Unread, '\n'); i >= 0 && lost == 0 { // begun, and then killed before that was noted
		isOpen := func(id []byte) bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(e.Open)), func(open []byte) bool { return bytes.Equal(open, id) })
		}
		if ids := idsOf(e.Unread[:i]); slices.ContainsFunc(ids, isOpen) {
			e.Begun = slices.DeleteFunc(ids, isOpen)
			e.Unread = e.Unread[i+1:]
			input.setBounds(half, start+i+1, end, 0)
		}
	}
	j.left = e.Unread
	return r, e
}

// idsOf returns the id of the request in the line, or the ids of its batch.
func idsOf(line []byte) (ids [][]byte) {
	add := func(message []byte) bool {
		if m, err := wire.Parse(message); err == nil && m.IsRequest() {
			ids = append(ids, m.ID)
		}
		return true
	}
	if wire.Elements(line, add) != nil {
		add(line)
	}
	return ids
}

// journaled is the input of a client, of which a journal notes what is read.
type journaled struct {
	io.Reader
	journal *Journal
}

// Read reads into the stage, which is zero where nothing was read. So the input is
// never in this process alone, not even before its length is known.
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
	unread(j.mem).add(stage[:n])
	j.mem[stagedAt] = 0
	clear(stage[:n])
	return n, err
}

// Passed notes that the lines that the reader has returned so far are open requests
// now, or done with.
func (j *Journal) Passed(r *wire.Reader) {
	n := r.Passed()
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	input := unread(j.mem)
	half, start, end, lost := input.bounds()
	if known := end - start; n <= known {
		input.setBounds(half, start+n, end, lost)
		return
	}
	input.addBehind(1-half, 0, 0, 0, slices.Concat(r.Buffered(), j.left)) // the old half stays valid until this one is complete
}

// unread is the memory of a journal, of which it manages the unread input: two
// halves, one of which is valid, and a tail for each. The mutex of the journal guards
// it.
type unread []byte

// add adds what was read.
func (u unread) add(p []byte) {
	half, start, end, lost := u.bounds()
	u.addBehind(half, start, end, lost, p)
}

// addBehind adds p behind what is unread of a half.
func (u unread) addBehind(half, start, end, lost int, p []byte) {
	n := 0
	if lost == 0 {
		if end+len(p) > maxInput && start > 0 { // go on in the other half
			unread := u[inputAt+half*maxInput:][start:end]
			half = 1 - half
			start, end = 0, copy(u[inputAt+half*maxInput:], unread)
		}
		n = copy(u[inputAt+half*maxInput:][end:maxInput], p)
		u.setTail(half, nil)
	}
	if n < len(p) {
		u.addTail(half, p[n:])
	}
	u.setBounds(half, start, end+n, lost+len(p)-n)
}

// addTail adds to the tail, which has the input that does not fit into the half. If
// the tail is full too, it keeps only the begin and end of long lines.
func (u unread) addTail(half int, p []byte) {
	tail := u.tail(half)
	if len(tail)+len(p) > maxInput {
		tail, p = abridged(tail), abridged(p)
	}
	tail = append(tail, p...)
	if len(tail) > maxInput {
		tail = append(tail[:maxInput-1], hole)
	}
	u.setTail(half, tail)
}

// abridged returns the lines with a hole in each long one.
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

func (u unread) tail(half int) []byte {
	n := min(maxInput, binary.LittleEndian.Uint32(u[tailAt+4*half:]))
	return bytes.Clone(u[tailText+half*maxInput:][:n])
}

func (u unread) setTail(half int, tail []byte) {
	n := copy(u[tailText+half*maxInput:][:maxInput], tail)
	binary.LittleEndian.PutUint32(u[tailAt+4*half:], uint32(n))
}

// bounds returns which half is valid, where the unread input begins and ends there,
// and how many bytes more are unread.
func (u unread) bounds() (half, start, end, lost int) {
	word := binary.LittleEndian.Uint64(u[unreadAt:])
	half = int(word >> 63)
	return half, int(word>>32) & (1<<31 - 1), int(uint32(word)), int(binary.LittleEndian.Uint64(u[lostAt+8*half:]))
}

// setBounds writes each of its two words at once, so that no word is half written
// when the router is killed.
func (u unread) setBounds(half, start, end, lost int) {
	if start == end {
		start, end = 0, 0
	}
	binary.LittleEndian.PutUint64(u[lostAt+8*half:], uint64(lost))
	binary.LittleEndian.PutUint64(u[unreadAt:], uint64(half)<<63|uint64(start)<<32|uint64(end))
}
