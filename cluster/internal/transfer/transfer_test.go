package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// A network carries the frames of a Source. It loses, repeats and reorders some.
type network struct {
	random                 *rand.Rand
	payload                int     // bytes in a frame
	loss, repeat, disorder float64 // shares
	forge                  int     // parts with changed bytes

	announced *sent
	parts     []sent
	count     int // of the parts that were sent
	most      int // bytes of parts that were under way
}

type sent struct {
	header  frame.Header
	payload []byte
}

func (n *network) Self() frame.Address { return frame.Address{} }
func (n *network) MaxPayload() int     { return n.payload }

func (n *network) Send(_ frame.Address, h frame.Header, payload []byte) error {
	one := sent{h, bytes.Clone(payload)}
	if h.Kind != frame.Part {
		n.announced = &one
		return nil
	}
	n.count++
	if n.forge > 0 && len(payload) > 0 {
		n.forge--
		one.payload[0]++
	}
	for copies := 1; copies > 0; copies-- {
		if n.random.Float64() < n.repeat {
			copies++
		}
		if n.random.Float64() < n.loss {
			continue
		}
		at := len(n.parts)
		if n.random.Float64() < n.disorder {
			at = n.random.IntN(at + 1)
		}
		n.parts = append(n.parts, sent{})
		copy(n.parts[at+1:], n.parts[at:])
		n.parts[at] = one
	}
	under := 0
	for _, p := range n.parts {
		under += len(p.payload)
	}
	n.most = max(n.most, under)
	return nil
}

// fetch brings a body over the network, and returns how long that took.
func (n *network) fetch(source *Source, budget *Budget) ([]byte, time.Duration, error) {
	begin := time.Unix(0, 0)
	now := begin
	if err := source.Send(n, frame.Address{}, frame.Header{Kind: frame.Result, Call: "c"}); err != nil {
		return nil, 0, err
	}
	sink, err := NewSink(*n.announced.header.Body, n.announced.payload, budget, now)
	if err != nil {
		return nil, 0, err
	}
	defer sink.Close()
	for {
		if data, ok, err := sink.Bytes(); ok || err != nil {
			return data, now.Sub(begin), err
		}
		pull, wake, err := sink.Next(now)
		if err != nil {
			return nil, now.Sub(begin), err
		}
		if pull.Length > 0 {
			if err := source.Answer(n, frame.Address{}, "c", pull); err != nil {
				return nil, 0, err
			}
		}
		if len(n.parts) == 0 {
			now = wake
			continue
		}
		p := n.parts[0]
		n.parts = n.parts[1:]
		sink.Add(*p.header.Part, p.payload, now)
	}
}

func text(size int) []byte {
	data := make([]byte, size)
	random := rand.New(rand.NewPCG(uint64(size), 1))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

func newNetwork(payload int) *network {
	return &network{random: rand.New(rand.NewPCG(1, 2)), payload: payload}
}

// Without faults, a body comes whole and at once, each byte is sent once, and no more than the
// window is under way.
func TestTransfer(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, window, unasked, unasked + 1, 3*window + 5, 9 * window} {
		for _, payload := range []int{100, 1 << 10, 200 << 10} {
			if size/payload > 1<<14 {
				continue
			}
			n, budget := newNetwork(payload), NewBudget(MaxReceived)
			data, took, err := n.fetch(NewSource("b", text(size)), budget)
			if err != nil || !bytes.Equal(data, text(size)) {
				t.Fatalf("%d bytes in frames of %d: got %d bytes, %v", size, payload, len(data), err)
			}
			if took != 0 {
				t.Errorf("%d bytes in frames of %d took %s: a pull was late", size, payload, took)
			}
			if most := size/payload + 2 + size/window*2; n.count > most {
				t.Errorf("%d bytes in frames of %d: sent %d parts, want at most %d", size, payload, n.count, most)
			}
			if n.most > 2*window {
				t.Errorf("%d bytes in frames of %d: %d bytes were under way", size, payload, n.most)
			}
			if used := budget.used.Load(); used != 0 {
				t.Errorf("%d bytes of the budget are still taken", used)
			}
		}
	}
}

// A body that came in one frame is not copied.
func TestInline(t *testing.T) {
	first := text(100)
	sink, err := NewSink(NewSource("b", first).Body(), first, NewBudget(0), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if data, ok, _ := sink.Bytes(); !ok || &data[0] != &first[0] {
		t.Error("the bytes were copied")
	}
}

// A body comes through a network that loses, repeats and reorders frames.
func TestFaults(t *testing.T) {
	for _, tt := range []struct{ loss, repeat, disorder float64 }{
		{0.1, 0, 0}, {0, 0.3, 0}, {0, 0, 0.3}, {0.05, 0.2, 0.2}, {0.3, 0.3, 0},
	} {
		for seed := range uint64(10) {
			n := newNetwork(20 << 10)
			n.random = rand.New(rand.NewPCG(seed, 3))
			n.loss, n.repeat, n.disorder = tt.loss, tt.repeat, tt.disorder
			want := text(3*window + int(seed))
			data, took, err := n.fetch(NewSource("b", want), NewBudget(MaxReceived))
			if err != nil || !bytes.Equal(data, want) {
				t.Fatalf("%+v, seed %d: got %d bytes after %s, %v", tt, seed, len(data), took, err)
			}
		}
	}
}

// A gap is seen when later bytes come, not only after a silence.
func TestGap(t *testing.T) {
	n, want, now := newNetwork(100<<10), text(window), time.Unix(0, 0)
	source := NewSource("b", want)
	source.Send(n, frame.Address{}, frame.Header{Kind: frame.Result})
	sink, err := NewSink(source.Body(), n.announced.payload, NewBudget(MaxReceived), now)
	if err != nil {
		t.Fatal(err)
	}
	pulls := 0
	for i, p := range n.parts {
		if i == 2 {
			continue
		}
		sink.Add(*p.header.Part, p.payload, now)
		if pull, _, _ := sink.Next(now); pull.Length > 0 {
			pulls++
			if want := 300 << 10; pull.Offset != int64(want) {
				t.Errorf("pulls from %d on, want %d", pull.Offset, want)
			}
		}
	}
	if pulls != 1 {
		t.Errorf("pulled %d times for one gap", pulls)
	}
}

// Forged parts have a body fetched again; if they do not end, it is given up.
func TestForged(t *testing.T) {
	n := newNetwork(200 << 10)
	n.forge = maxRestarts
	if data, _, err := n.fetch(NewSource("b", text(window/2)), NewBudget(MaxReceived)); err != nil || !bytes.Equal(data, text(window/2)) {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
	n = newNetwork(200 << 10)
	n.forge = 1 << 20
	if _, _, err := n.fetch(NewSource("b", text(window/2)), NewBudget(MaxReceived)); !errors.Is(err, ErrInvalid) {
		t.Errorf("got the error %v of a forged body", err)
	}
}

// A body without its parts is given up after a time.
func TestSilence(t *testing.T) {
	n := newNetwork(1 << 10)
	n.loss = 1
	_, took, err := n.fetch(NewSource("b", text(window)), NewBudget(MaxReceived))
	if !errors.Is(err, ErrSilent) || took != patience {
		t.Errorf("got the error %v after %s", err, took)
	}
	if n.count < 8*window>>10 {
		t.Errorf("%d parts were sent: it was not pulled again each second", n.count)
	}
}

// A body waits until there is room for it; a body that is alone always has room.
func TestRoom(t *testing.T) {
	budget := NewBudget(100)
	if !budget.take(window) {
		t.Fatal("there is no room for the only body")
	}
	source, now := NewSource("b", text(3000)), time.Unix(0, 0)
	n := newNetwork(1000)
	source.Send(n, frame.Address{}, frame.Header{Kind: frame.Result})
	sink, err := NewSink(source.Body(), n.announced.payload, budget, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range n.parts {
		sink.Add(*p.header.Part, p.payload, now)
	}
	pull, wake, err := sink.Next(now)
	if len(sink.data) > 0 || pull.Length > 0 || wake != now.Add(roomPause) || err != nil {
		t.Fatalf("without room: %d bytes, %+v, %s, %v", len(sink.data), pull, wake, err)
	}
	if _, _, err := sink.Next(now.Add(patience)); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("got the error %v after %s without room", err, patience)
	}
	budget.release(window)
	if pull, _, err = sink.Next(wake); pull.Offset != 0 || pull.Length != 3000 || err != nil {
		t.Fatalf("with room: %+v, %v", pull, err)
	}
	if budget.take(1) {
		t.Error("the body has not taken its room")
	}
	sink.Close()
	sink.Close()
	if !budget.take(1) {
		t.Error("the body has not released its room")
	}
}

func TestInvalid(t *testing.T) {
	sum := Sum(nil)
	for _, tt := range []struct {
		body  frame.Body
		first string
	}{
		{frame.Body{Size: -1, Sum: sum}, ""},
		{frame.Body{Size: MaxBody + 1, Sum: sum}, ""},
		{frame.Body{Size: 5}, ""},
		{frame.Body{Size: 5, Sum: "00"}, ""},
		{frame.Body{Size: 5, Sum: sum}, "123456"},
		{frame.Body{Size: 5, Sum: sum}, "12345"},
	} {
		if _, err := NewSink(tt.body, []byte(tt.first), NewBudget(MaxReceived), time.Time{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v with %q: got the error %v", tt.body, tt.first, err)
		}
	}
	source := NewSource("b", text(10))
	n := newNetwork(100)
	for _, pull := range []frame.Range{
		{Body: "x", Length: 1}, {Body: "b", Offset: -1, Length: 1}, {Body: "b", Offset: 11, Length: 1}, {Body: "b", Length: -1},
	} {
		if err := source.Answer(n, frame.Address{}, "c", pull); err == nil || n.count > 0 {
			t.Errorf("%+v was answered", pull)
		}
	}
}

// A pull for the largest length is answered with a window at most.
func TestPullBound(t *testing.T) {
	n := newNetwork(100 << 10)
	if err := NewSource("b", text(3*window)).Answer(n, frame.Address{}, "c", frame.Range{Body: "b", Length: 1 << 62}); err != nil {
		t.Fatal(err)
	}
	if n.most > window {
		t.Errorf("%d bytes were sent", n.most)
	}
}

// With any parts in any order, a sink has the announced text or an error, pulls bytes of the body
// only, and ends.
func FuzzSink(f *testing.F) {
	f.Add(uint16(3000), uint16(100), []byte{0, 1, 2, 3, 200, 5, 90})
	f.Add(uint16(500), uint16(500), []byte{1, 0, 1})
	f.Fuzz(func(t *testing.T, size, inline uint16, script []byte) {
		want := text(int(size))
		now := time.Unix(0, 0)
		budget := NewBudget(MaxReceived)
		body := NewSource("b", want).Body()
		sink, err := NewSink(body, want[:min(int(inline), len(want))], budget, now)
		if err != nil {
			t.Fatal(err)
		}
		part := func(offset, length int, change byte) {
			payload := make([]byte, length)
			if offset >= 0 && offset < len(want) {
				copy(payload, want[offset:])
			}
			if length > 0 {
				payload[0] += change
			}
			sink.Add(frame.Range{Body: "b", Offset: int64(offset)}, payload, now)
		}
		for i := 0; i+3 < len(script); i += 4 {
			pull, wake, err := sink.Next(now)
			if err != nil {
				break
			}
			if pull.Length < 0 || pull.Offset < 0 || pull.Offset+pull.Length > body.Size || pull.Length > window {
				t.Fatalf("pulls %+v of %d bytes", pull, size)
			}
			if script[i]&1 == 1 && wake.After(now) {
				now = wake
			}
			var change byte
			if script[i]&2 == 2 && script[i]&4 == 4 {
				change = 1
			}
			part(int(script[i+1])<<4-8, int(script[i+2])<<4+int(script[i+3]), change)
		}
		for wakes := 0; ; wakes++ { // honest from here on
			data, ok, err := sink.Bytes()
			if ok && !bytes.Equal(data, want) {
				t.Fatal("got another text")
			}
			if ok || err != nil {
				break
			}
			pull, wake, err := sink.Next(now)
			if err != nil {
				break
			}
			if wakes > 100 {
				t.Fatal(fmt.Sprint("does not end: ", pull, wake))
			}
			if now = wake; pull.Length > 0 {
				part(int(pull.Offset), int(pull.Length), 0)
			}
		}
		sink.Close()
		if budget.used.Load() != 0 {
			t.Fatal("the budget is still taken")
		}
	})
}
