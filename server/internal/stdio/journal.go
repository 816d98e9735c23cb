package stdio

import (
	"io"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Journal notes what another router process needs to go on serving a client if this
// router is killed: which requests are open, which messages of the client have a
// lasting effect, and what was read and not yet acted on. Its methods may be called
// by many goroutines at once, and do nothing after Close.
type Journal interface {
	// Open returns a reader of in that notes what is read from it. If another
	// router served the client before, the reader begins with what that router
	// had read and not acted on; inherited says what else it left, and is nil
	// otherwise. Open is called once, before all other methods.
	Open(in io.Reader) (r io.Reader, inherited *Inherited)

	// Begin notes that the request of an id is open. It returns the request's
	// slot, NoSlot if the journal can't hold it.
	Begin(id []byte) (slot int)

	// End notes that the requests in the slots are over, though no answer is
	// written.
	End(slots ...int)

	// Keep notes a message to be replayed, instead of the one with the same key;
	// a nil message takes that away.
	Keep(key string, message []byte)

	// Passed notes that the lines that the reader has returned so far are open
	// requests now, or done with.
	Passed(lines *wire.Reader)

	// Write writes to the client, and notes that the answers to the requests in the
	// slots are written.
	Write(out io.Writer, piece []byte, slots []int) error

	// Close is called when no Read is under way any more.
	Close()
}

// NoSlot is the slot of a request that is not in a [Journal].
const NoSlot = -1

// Hole stands where a [Journal] lacks bytes of the input. No JSON has it.
const Hole = 0

// Inherited is what the router before left in a [Journal].
type Inherited struct {
	Routers uint32         // that served the client before
	Torn    bool           // the last message to the client may be incomplete: a line end is to be written first
	Open    map[int][]byte // the ids of requests that were not answered, by their slots
	Begun   [][]byte       // the ids of further requests, of a batch that the router had begun to let in
	Kept    []wire.Message // to be replayed
	Unread  []byte         // the beginning of the input, which the router had read; see [Hole]
}

// noJournal notes nothing.
type noJournal struct{}

func (noJournal) Open(in io.Reader) (io.Reader, *Inherited) { return in, nil }
func (noJournal) Begin([]byte) int                          { return NoSlot }
func (noJournal) End(...int)                                {}
func (noJournal) Keep(string, []byte)                       {}
func (noJournal) Passed(*wire.Reader)                       {}
func (noJournal) Close()                                    {}
func (noJournal) Write(out io.Writer, piece []byte, _ []int) error {
	_, err := out.Write(piece)
	return err
}
