package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

// handedOn is a client whose router is replaced while it goes on.
type handedOn struct {
	input chan string
	lines chan string
}

func newHandedOn(t *testing.T) (c *handedOn, out io.Writer) {
	c = &handedOn{input: make(chan string, 100), lines: make(chan string, 1000)}
	from, to := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		to.Close()
		<-done
	})
	return c, to
}

func (c *handedOn) send(line string) { c.input <- line + "\n" }

// A living router reads what the client sends while it lives.
type living struct {
	input <-chan string
	life  context.Context
}

func (l *living) Read(p []byte) (int, error) {
	select {
	case line := <-l.input:
		return copy(p, line), nil
	case <-l.life.Done():
		return 0, io.ErrClosedPipe
	}
}

// A router that is killed leaves nothing undone: what was open gets an error, what
// was read and not looked at is done by the next one, and the client need not
// begin again.
func TestTakeOver(t *testing.T) {
	c, out := newHandedOn(t)
	mem := make([]byte, JournalSize)
	j := NewJournal(mem)
	called := make(chan string, 100)
	r := newFake(tool("a", "b"))
	r.execute = func(ctx context.Context, call selector.Call) (selector.Result, error) {
		called <- string(call.Arguments)
		<-ctx.Done()
		return selector.Result{}, context.Cause(ctx)
	}
	first, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(r, Options{Mode: Direct}).Serve(first, &living{c.input, first}, out, j)
	}()
	c.send(initializing)
	<-c.lines
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
	<-c.lines
	c.send(`{"jsonrpc":"2.0","id":"open","method":"tools/call","params":{"name":"a__b","arguments":{"n":1}}}`)
	<-called
	j.mu.Lock()
	left := bytes.Clone(mem) // as if it were killed at this moment
	j.mu.Unlock()
	kill()
	<-ended
	for len(c.lines) > 0 { // what it said after that
		<-c.lines
	}

	r = newFake(tool("a", "b"))
	second, end := context.WithCancel(t.Context())
	go func() {
		ended <- New(r, Options{Mode: Direct}).Serve(second, &living{c.input, second}, out, NewJournal(left))
	}()
	next := func() string {
		for {
			if line := <-c.lines; !strings.Contains(line, `"id":1,`) { // answered, and "killed" before that was noted
				return line
			}
		}
	}
	if got := next(); !strings.Contains(got, `"id":"open","error"`) || !strings.Contains(got, "another router has taken over") {
		t.Errorf("the open call got %s", got)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b","arguments":{"n":2}}}`)
	if got := next(); !strings.Contains(got, `"id":2,"result":{"content":[]`) {
		t.Errorf("the next call got %s", got)
	}
	if level := r.level.Load(); level != "error" {
		t.Errorf("the level of log messages is %v", level)
	}
	end()
	<-ended
}

// Whenever a router is killed, each request that the client has sent is open, or
// is to be read, and none is both or torn.
func TestJournalLosesNothing(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		var sent bytes.Buffer
		ids := 1 + random.IntN(30)
		for i := range ids {
			size := random.IntN(300)
			if random.IntN(10) == 0 {
				size = random.IntN(3 * maxInput)
			}
			fmt.Fprintf(&sent, `{"jsonrpc":"2.0","method":"m","params":{"s":"%s"},"id":%d}`+"\n", strings.Repeat("x", size), i)
		}
		mem := make([]byte, JournalSize)
		j := NewJournal(mem)
		j.inherit()
		in := bytes.NewReader(sent.Bytes())
		lines := wire.NewReader(j.input(&pieces{in, random}, nil), wire.MaxLine)
		killed := random.IntN(ids)
		for range killed {
			line, err := lines.Next()
			if err != nil {
				t.Fatal(err)
			}
			m, _ := wire.Parse(line)
			j.begin(m.ID)
			j.passed(lines)
		}
		if random.IntN(2) == 0 { // in the middle of reading
			lines.Next()
		}
		var got []string
		var rest *wire.Reader
		for range 1 + random.IntN(3) { // routers, each of which reads on and is killed
			mem = bytes.Clone(mem)
			j = NewJournal(mem)
			e := j.inherit()
			for _, id := range e.open {
				got = append(got, string(id))
			}
			j.wrote(slices.Collect(maps.Keys(e.open)))
			rest = wire.NewReader(j.input(&pieces{in, random}, e.unread), wire.MaxLine)
			for range random.IntN(4) {
				j.passed(rest)
				if line, err := rest.Next(); err == nil {
					got = append(got, idOf(t, line))
				}
			}
			j.passed(rest)
		}
		for {
			line, err := rest.Next()
			if err != nil {
				break
			}
			got = append(got, idOf(t, line))
		}
		var want []string
		for i := range ids {
			want = append(want, fmt.Sprint(i))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d of %d read: got %v, want %v", seed, killed, ids, got, want)
		}
	}
}

// idOf returns the id of a request, of which the middle may be missing.
func idOf(t *testing.T, line []byte) string {
	t.Helper()
	m, err := wire.Parse(line)
	if err == nil {
		return string(m.ID)
	}
	if bytes.IndexByte(line, hole) < 0 {
		t.Fatalf("torn: %.100s", line)
	}
	return string(looseID(line))
}

// Many requests that were read behind a large one, more than there is room for, are
// not lost either.
func TestJournalOfMuchUnread(t *testing.T) {
	const behind = 100
	var sent bytes.Buffer
	request := func(id, size int) {
		fmt.Fprintf(&sent, `{"jsonrpc":"2.0","method":"m","params":{"s":"%s"},"id":%d}`+"\n", strings.Repeat("x", size), id)
	}
	request(0, 600<<10)
	for i := range behind {
		request(1+i, 4000)
	}
	mem := make([]byte, JournalSize)
	j := NewJournal(mem)
	j.inherit()
	lines := wire.NewReader(j.input(&sent, nil), wire.MaxLine)
	if _, err := lines.Next(); err != nil {
		t.Fatal(err)
	}
	j.begin([]byte("0"))
	before, valid := NewJournal(bytes.Clone(mem)).inherit().unread, bytes.Clone(mem[unreadAt:][:8])
	j.passed(lines)
	killed := bytes.Clone(mem)
	copy(killed[unreadAt:], valid) // as if it were killed before what it noted last was valid
	if !bytes.Equal(NewJournal(killed).inherit().unread, before) {
		t.Error("what was noted before is gone before the next is there")
	}
	got := make(map[string]bool)
	next := NewJournal(mem)
	rest := wire.NewReader(next.input(&sent, next.inherit().unread), wire.MaxLine)
	for {
		line, err := rest.Next()
		if err != nil {
			break
		}
		m, err := wire.Parse(line)
		if err != nil {
			m.ID = looseID(line)
		}
		got[string(m.ID)] = true
	}
	if len(got) != behind {
		t.Errorf("%d of %d requests are known", len(got), behind)
	}
}

// pieces gives any number of bytes at a time.
type pieces struct {
	io.Reader
	random *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:1+p.random.IntN(len(b))])
}

func TestJournal(t *testing.T) {
	mem := make([]byte, JournalSize)
	j := NewJournal(mem)
	if j.inherit() != nil {
		t.Error("an empty journal has an estate")
	}
	var taken []int
	for i := range slots + 5 {
		taken = append(taken, j.begin(fmt.Append(nil, i)))
	}
	if taken[slots] != noSlot || slices.Contains(taken[:slots], noSlot) {
		t.Error("slots are not as many as they should be")
	}
	j.end(taken...)
	id := `"` + strings.Repeat("i", maxID-2) + `"`
	slot := j.begin([]byte(id))
	j.keep("a", []byte(`{"method":"initialize"}`))
	j.keep("b", []byte(`{"method":"logging/setLevel","params":1}`))
	j.keep("b", []byte(`{"method":"logging/setLevel","params":2}`))
	j.keep("c", []byte(`{"method":"resources/subscribe","params":{"uri":"x:c"}}`))
	j.keep("c", nil)
	j.keep("big", bytes.Repeat([]byte("x"), maxState))
	j.writing(tornAbove + 1)

	next := NewJournal(mem)
	e := next.inherit()
	if len(e.open) != 1 || string(e.open[slot]) != id || !e.torn || e.lives != 1 {
		t.Errorf("open %v, torn %v, lives %d", e.open, e.torn, e.lives)
	}
	if len(e.kept) != 2 || e.kept[0].Method != "initialize" || string(e.kept[1].Params) != "2" {
		t.Errorf("kept %+v", e.kept)
	}
	next.wrote(slices.Collect(maps.Keys(e.open)))
	if e := NewJournal(mem).inherit(); len(e.open) != 0 || e.torn || len(e.kept) != 2 || e.lives != 2 {
		t.Errorf("left by the second: %+v", e)
	}
}

// deaf neither returns what it read nor has written what it was given before it is
// let.
type deaf struct{ let chan struct{} }

func (d deaf) Read(p []byte) (int, error) {
	<-d.let
	return copy(p, "{}\n"), nil
}

func (d deaf) Write([]byte) (int, error) {
	<-d.let
	return 1, io.ErrShortWrite
}

// Who was abandoned in a write does not touch the memory any more, which may be
// unmapped when Serve has returned.
func TestJournalIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := make([]byte, JournalSize)
		ctx, cancel := context.WithCancel(t.Context())
		d := deaf{make(chan struct{})}
		in := io.MultiReader(strings.NewReader(initializing+"\n"), &living{nil, ctx})
		served := make(chan error, 1)
		j := NewJournal(mem)
		go func() { served <- New(newFake(), Options{}).Serve(ctx, in, d, j) }()
		synctest.Wait()
		cancel()
		<-served
		if !j.Closed() {
			t.Error("the memory is still in use")
		}
		before := bytes.Clone(mem)
		close(d.let)
		synctest.Wait()
		if !bytes.Equal(mem, before) {
			t.Error("the memory was touched after Serve had returned")
		}
		if e := NewJournal(before).inherit(); len(e.open) != 1 {
			t.Errorf("open: %v; want the request whose answer was not written", e.open)
		}
	})
}

// A write that fails answers nothing, and may have been torn.
func TestJournalOfAFailedWrite(t *testing.T) {
	j := NewJournal(make([]byte, JournalSize))
	j.inherit()
	let := make(chan struct{})
	close(let)
	q := newQueue(deaf{let}, j, func(error) {})
	q.answer(make([]byte, tornAbove+1), j.begin([]byte("7")), true)
	if e := NewJournal(j.mem).inherit(); len(e.open) != 1 || !e.torn {
		t.Errorf("open %v, torn %v", e.open, e.torn)
	}
}

// A request that comes while the router ends is left to the next one, with all that
// it would change.
func TestRequestAtTheEnd(t *testing.T) {
	j := NewJournal(make([]byte, JournalSize))
	j.inherit()
	p := &pipe{journal: j}
	p.queue = newQueue(io.Discard, j, func(error) {})
	p.conversation = New(newFake(), Options{}).converse(p)
	p.conversation.close()
	lines := wire.NewReader(j.input(strings.NewReader(initializing+"\n"), nil), wire.MaxLine)
	line, err := lines.Next()
	if err != nil {
		t.Fatal(err)
	}
	if p.take(t.Context(), line, lines) {
		t.Error("it was taken")
	}
	if e := NewJournal(j.mem).inherit(); !strings.Contains(string(e.unread), initializing) || len(e.kept)+len(e.open) > 0 {
		t.Errorf("unread %q, open %v, kept %v", e.unread, e.open, e.kept)
	}
}

func TestLooseID(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"s":"` + "\x00" + `"}}`:   `7`,
		`{"method":"m","params":{"s":"` + "\x00" + `"},"jsonrpc":"2.0","id":"a"}`: `"a"`,
		`{"method":"m","params":{"s":"` + "\x00" + `"},"jsonrpc":"2.0"}`:          ``,
		`{"method":"m","params":{"s":"` + "\x00" + `","id":3}}`:                   ``,
		"\x00":           ``,
		"\x00\"id\":}":   ``,
		"\x00\"id\":{}}": ``,
	} {
		if got := string(looseID([]byte(line))); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// The memory may be used for something else once nothing reads into it any more.
func TestJournalClosed(t *testing.T) {
	for name, ends := range map[string]bool{"a Read that ends": true, "one that goes on": false} {
		j := NewJournal(make([]byte, JournalSize))
		ctx, cancel := context.WithCancel(t.Context())
		in := &living{make(chan string), ctx}
		if !ends {
			in.life = t.Context()
		}
		served := make(chan error, 1)
		go func() { served <- New(newFake(), Options{}).Serve(ctx, in, io.Discard, j) }()
		cancel()
		<-served
		if j.Closed() != ends {
			t.Errorf("%s: closed: %v", name, j.Closed())
		}
	}
}

// What was read is not lost even if the router is killed before it knows how much
// it is.
func TestJournalStage(t *testing.T) {
	mem := make([]byte, JournalSize)
	j := NewJournal(mem)
	j.inherit()
	in := j.input(strings.NewReader("{}\n{\"a\":"), nil)
	in.Read(make([]byte, 4))
	killed := bytes.Clone(mem)
	killed[stagedAt] = 1
	copy(killed[stageAt:], "\"a\":")
	e := NewJournal(killed).inherit()
	if string(e.unread) != "{}\n{\"a\":" {
		t.Errorf("unread: %q", e.unread)
	}
	if e := NewJournal(killed).inherit(); string(e.unread) != "{}\n{\"a\":" {
		t.Errorf("after one more was killed: %q", e.unread)
	}
}
