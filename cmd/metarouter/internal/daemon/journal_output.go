package daemon

import (
	"encoding/binary"
	"io"
)

// maxStaged bounds what goes through the stage for output at once, in bytes.
const maxStaged = 32 << 10

// Write writes to the client, and notes that the answers to the requests in the slots
// are written.
//
// Between a write and the note that it is done, the router may be killed, and the next
// router can't see what the client has read. So the answers first go into a stage that
// outlives the router. They are noted as moving, and move on to the client inside the
// kernel. If the router is killed before that note, the client has nothing of them and
// the requests are open. If it is killed after, the next router moves the rest. Only
// the beginning of a long message is written directly: without its end it is no answer.
func (j *Journal) Write(out io.Writer, piece []byte, slots []int) error {
	if err := j.deliver(out); err != nil {
		return err
	}
	end, staged := j.output.Leads(out)
	if !staged {
		return j.writeDirectly(out, piece, slots)
	}
	head := max(0, len(piece)-maxStaged)
	if head > 0 {
		j.setTorn()
		if _, err := end.Write(piece[:head]); err != nil {
			return err
		}
	}
	if !j.output.Put(piece[head:]) {
		return j.writeDirectly(out, piece[head:], slots)
	}
	j.move(slots)
	if err := j.output.Move(end, len(piece)-head); err != nil {
		return err
	}
	j.wrote(slots)
	return nil
}

// writeDirectly is Write without a stage.
func (j *Journal) writeDirectly(out io.Writer, piece []byte, slots []int) error {
	if len(piece) > tornAbove {
		j.setTorn()
	}
	if _, err := out.Write(piece); err != nil {
		return err
	}
	j.wrote(slots)
	return nil
}

// deliver moves on what another router has left in the stage.
func (j *Journal) deliver(out io.Writer) (err error) {
	slots := j.moving
	if slots == nil {
		return nil
	}
	if end, ok := j.output.Leads(out); ok {
		err = j.output.Move(end, j.output.Len())
	} else {
		_, err = out.Write(j.output.Take())
	}
	if err == nil {
		j.moving = nil
		j.wrote(slots)
	}
	return err
}

// setTorn notes that a message is being written that a pipe may take in pieces.
func (j *Journal) setTorn() {
	if j.lock() {
		defer j.mu.Unlock()
		j.mem[tornAt] = 1
	}
}

// move notes that the answers to the requests in the slots are in the stage.
func (j *Journal) move(slots []int) {
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	for _, slot := range slots {
		if slot != noSlot {
			s := j.slot(slot)
			binary.LittleEndian.PutUint16(s, binary.LittleEndian.Uint16(s)|marked)
		}
	}
	j.mem[movingAt] = 1
}

// wrote notes that the answers to the requests in the slots are written.
func (j *Journal) wrote(slots []int) {
	if !j.lock() {
		return
	}
	defer j.mu.Unlock()
	j.release(slots)
	j.mem[tornAt] = 0
	j.mem[movingAt] = 0
}

// inheritOutput returns the ids of the open requests by their slots, and whether the last
// message to the client may be incomplete. It keeps the slots of those whose answers are
// moving, and drops what was put into the stage and did not begin to move. j.mu must be
// held.
func (j *Journal) inheritOutput() (open map[int][]byte, torn bool) {
	open, torn = make(map[int][]byte), j.mem[tornAt] == 1
	moving := j.mem[movingAt] == 1 && j.output != nil
	if moving {
		j.moving, torn = []int{}, true // so that the rest moves soon
	} else if j.output != nil {
		j.output.Take()
	}
	for i := range slots {
		s := j.slot(i)
		n := binary.LittleEndian.Uint16(s)
		switch id := n &^ marked; {
		case moving && n&marked != 0:
			j.moving = append(j.moving, i)
		case id > 0:
			binary.LittleEndian.PutUint16(s, id)
			open[i] = append([]byte(nil), s[2:][:min(id, maxID)]...)
		}
	}
	return open, torn
}
