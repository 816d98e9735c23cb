package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
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
	j := NewJournal(mem, nil)
	called := make(chan string, 100)
	r := newFake()
	r.execute = func(ctx context.Context, call selector.Call) (selector.Result, error) {
		called <- string(call.Arguments)
		<-ctx.Done()
		return selector.Result{}, context.Cause(ctx)
	}
	first, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.New(r, server.Options{Mode: server.Direct}).Serve(first, &living{c.input, first}, out, j)
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

	r = newFake()
	second, end := context.WithCancel(t.Context())
	go func() {
		ended <- server.New(r, server.Options{Mode: server.Direct}).Serve(second, &living{c.input, second}, out, NewJournal(left, nil))
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
	for stop := time.Now().Add(10 * time.Second); r.level.Load() != "error"; time.Sleep(time.Millisecond) { // the request that sets it runs beside others
		if time.Now().After(stop) {
			t.Fatalf("the level of log messages is %v", r.level.Load())
		}
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
		j := NewJournal(mem, nil)
		inherit(j)
		in := bytes.NewReader(sent.Bytes())
		lines := wire.NewReader(&journaled{&pieces{in, random}, j}, wire.MaxLine)
		killed := random.IntN(ids)
		for range killed {
			line, err := lines.Next()
			if err != nil {
				t.Fatal(err)
			}
			m, _ := wire.Parse(line)
			j.Begin(m.ID)
			j.Passed(lines)
		}
		if random.IntN(2) == 0 { // in the middle of reading
			lines.Next()
		}
		var got []string
		var rest *wire.Reader
		for range 1 + random.IntN(3) { // routers, each of which reads on and is killed
			mem = bytes.Clone(mem)
			j = NewJournal(mem, nil)
			e := inherit(j)
			for _, id := range e.Open {
				got = append(got, string(id))
			}
			j.wrote(slices.Collect(maps.Keys(e.Open)))
			rest = wire.NewReader(&journaled{&pieces{in, random}, j}, wire.MaxLine)
			for range random.IntN(4) {
				j.Passed(rest)
				if line, err := rest.Next(); err == nil {
					got = append(got, idOf(t, line))
				}
			}
			j.Passed(rest)
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
	j := NewJournal(mem, nil)
	inherit(j)
	lines := wire.NewReader(&journaled{&sent, j}, wire.MaxLine)
	if _, err := lines.Next(); err != nil {
		t.Fatal(err)
	}
	j.Begin([]byte("0"))
	before, valid := inherit(NewJournal(bytes.Clone(mem), nil)).Unread, bytes.Clone(mem[unreadAt:][:8])
	j.Passed(lines)
	killed := bytes.Clone(mem)
	copy(killed[unreadAt:], valid) // as if it were killed before what it noted last was valid
	if !bytes.Equal(inherit(NewJournal(killed, nil)).Unread, before) {
		t.Error("what was noted before is gone before the next is there")
	}
	got := make(map[string]bool)
	next := NewJournal(mem, nil)
	inherit(next)
	rest := wire.NewReader(&journaled{&sent, next}, wire.MaxLine)
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
	j := NewJournal(mem, nil)
	if inherit(j) != nil {
		t.Error("an empty journal has an estate")
	}
	var taken []int
	for i := range slots + 5 {
		taken = append(taken, j.Begin(fmt.Append(nil, i)))
	}
	if taken[slots] != noSlot || slices.Contains(taken[:slots], noSlot) {
		t.Error("slots are not as many as they should be")
	}
	j.End(taken...)
	id := `"` + strings.Repeat("i", maxID-2) + `"`
	slot := j.Begin([]byte(id))
	j.Keep("a", []byte(`{"method":"initialize"}`))
	j.Keep("b", []byte(`{"method":"logging/setLevel","params":1}`))
	j.Keep("b", []byte(`{"method":"logging/setLevel","params":2}`))
	j.Keep("c", []byte(`{"method":"resources/subscribe","params":{"uri":"x:c"}}`))
	j.Keep("c", nil)
	j.Keep("big", bytes.Repeat([]byte("x"), maxState))
	j.setTorn()

	next := NewJournal(mem, nil)
	e := inherit(next)
	if len(e.Open) != 1 || string(e.Open[slot]) != id || !e.Torn || e.Routers != 1 {
		t.Errorf("open %v, torn %v, lives %d", e.Open, e.Torn, e.Routers)
	}
	if len(e.Kept) != 2 || e.Kept[0].Method != "initialize" || string(e.Kept[1].Params) != "2" {
		t.Errorf("kept %+v", e.Kept)
	}
	next.wrote(slices.Collect(maps.Keys(e.Open)))
	if e := inherit(NewJournal(mem, nil)); len(e.Open) != 0 || e.Torn || len(e.Kept) != 2 || e.Routers != 2 {
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
		j := NewJournal(mem, nil)
		go func() { served <- server.New(newFake(), server.Options{}).Serve(ctx, in, d, j) }()
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
		if e := inherit(NewJournal(before, nil)); len(e.Open) != 1 {
			t.Errorf("open: %v; want the request whose answer was not written", e.Open)
		}
	})
}

// The memory may be used for something else once nothing reads into it any more.
func TestJournalClosed(t *testing.T) {
	for name, ends := range map[string]bool{"a Read that ends": true, "one that goes on": false} {
		j := NewJournal(make([]byte, JournalSize), nil)
		ctx, cancel := context.WithCancel(t.Context())
		in := &living{make(chan string), ctx}
		if !ends {
			in.life = t.Context()
		}
		served := make(chan error, 1)
		go func() { served <- server.New(newFake(), server.Options{}).Serve(ctx, in, io.Discard, j) }()
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
	j := NewJournal(mem, nil)
	inherit(j)
	in := &journaled{strings.NewReader("{}\n{\"a\":"), j}
	in.Read(make([]byte, 4))
	killed := bytes.Clone(mem)
	killed[stagedAt] = 1
	copy(killed[stageAt:], "\"a\":")
	e := inherit(NewJournal(killed, nil))
	if string(e.Unread) != "{}\n{\"a\":" {
		t.Errorf("unread: %q", e.Unread)
	}
	if e := inherit(NewJournal(killed, nil)); string(e.Unread) != "{}\n{\"a\":" {
		t.Errorf("after one more was killed: %q", e.Unread)
	}
}

// lost returns the ids of the requests that were answered as those of a router that
// was killed, before the line comes.
func (c *handedOn) lost(last string) string {
	var ids []string
	for line := <-c.lines; line != last; line = <-c.lines {
		if strings.Contains(line, "try again") {
			ids = append(ids, string(wire.Member([]byte(line), "id")))
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// So it is if it was killed while it let the batch in.
func TestTakeOverOfHalfABatch(t *testing.T) {
	c, out := newHandedOn(t)
	mem := make([]byte, JournalSize)
	j := NewJournal(mem, nil)
	inherit(j)
	unread(j.mem).add([]byte(`[` + toolCall + `,{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]` + "\n"))
	j.Begin(json.RawMessage("1"))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.New(newFake(), server.Options{Mode: server.Direct}).Serve(ctx, &living{c.input, ctx}, out, NewJournal(mem, nil))
	}()
	c.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	if lost := c.lost(`{"jsonrpc":"2.0","id":9,"result":{}}`); lost != "1 2" {
		t.Errorf("answered were %s", lost)
	}
	end()
	<-ended
}

// What is left of a batch when its router is killed is answered by the next one, once.
func TestTakeOverOfABatch(t *testing.T) {
	c, out := newHandedOn(t)
	mem := make([]byte, JournalSize)
	j := NewJournal(mem, nil)
	called := make(chan string, 10)
	r := newFake()
	r.execute = func(ctx context.Context, call selector.Call) (selector.Result, error) {
		called <- string(call.Arguments)
		<-ctx.Done()
		return selector.Result{}, context.Cause(ctx)
	}
	first, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.New(r, server.Options{Mode: server.Direct}).Serve(first, &living{c.input, first}, out, j)
	}()
	c.send(openedAs("2025-03-26"))
	<-c.lines
	c.send(`[` + toolCall + `,{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"error"}},{"jsonrpc":"2.0","id":4,"method":"no/such"}]`)
	<-called
	j.mu.Lock()
	left := bytes.Clone(mem) // as if it were killed at this moment
	j.mu.Unlock()
	kill()
	<-ended
	for len(c.lines) > 0 { // what it said after that
		<-c.lines
	}
	second, end := context.WithCancel(t.Context())
	go func() {
		ended <- server.New(r, server.Options{Mode: server.Direct}).Serve(second, &living{c.input, second}, out, NewJournal(left, nil))
	}()
	c.send(`[{"jsonrpc":"2.0","id":9,"method":"ping"}]`)
	if lost := c.lost(`[{"jsonrpc":"2.0","id":9,"result":{}}]`); lost != "1 2 3 4" {
		t.Errorf("answered were %s", lost)
	}
	if level := r.level.Load(); level != "error" {
		t.Errorf("the level is %v", level)
	}
	end()
	<-ended
}

// inherit opens the journal, and returns what the router before has left.
func inherit(j *Journal) *server.Inherited {
	_, inherited := j.Open(nil)
	return inherited
}

// looseID finds the id of a request of which the middle may be missing.
func looseID(line []byte) []byte {
	_, id, _ := bytes.Cut(line, []byte(`"id":`))
	return bytes.TrimSuffix(id, []byte("}"))
}

const (
	initializing = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	toolCall     = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`
)

// A fakeRouter has the tool a:b.
type fakeRouter struct {
	server.Router // for what no test calls
	*registry.Registry
	execute func(context.Context, selector.Call) (selector.Result, error)
	level   atomic.Value // of log messages, a string
}

func newFake() *fakeRouter {
	r := &fakeRouter{Registry: registry.New()}
	r.execute = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{JSON: []byte(`{"content":[]}`)}, nil
	}
	schema := []byte(`{"type":"object"}`)
	r.Replace("a", registry.Offer{Tools: []registry.NormalizedTool{{
		ID: "a:b", Server: "a", Name: "b", InputSchema: schema, Definition: []byte(`{"name":"b","inputSchema":{"type":"object"}}`),
	}}})
	return r
}

func (r *fakeRouter) Changed() <-chan struct{}                 { return r.Registry.Changed() }
func (r *fakeRouter) Snapshot() *registry.Snapshot             { return r.Registry.Snapshot() }
func (r *fakeRouter) Servers() []adapter.ServerInfo            { return nil }
func (r *fakeRouter) Nodes() []adapter.NodeInfo                { return nil }
func (r *fakeRouter) Unlisted() []string                       { return nil }
func (r *fakeRouter) Settled(context.Context) error            { return nil }
func (r *fakeRouter) Attach(session.Client)                    {}
func (r *fakeRouter) Release(session.Client)                   {}
func (r *fakeRouter) SetLevel(_ context.Context, level string) { r.level.Store(level) }

func (r *fakeRouter) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	return r.execute(ctx, c)
}

// openedAs is initialize of a client of the revision.
func openedAs(revision string) string {
	return strings.Replace(initializing, "2025-11-25", revision, 1)
}
