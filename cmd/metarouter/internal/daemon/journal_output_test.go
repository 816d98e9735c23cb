//go:build linux

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/server"
)

// A cut is a moment of a write at which the router is killed. It does what the router has
// done of Write until then.
type cut struct {
	name string
	do   func(j *Journal, end *pipe.End, piece []byte, slots []int)
}

// staged are the moments of a write through a stage, in their order.
var staged = []cut{
	{"before", func(*Journal, *pipe.End, []byte, []int) {}},
	{"in the head", func(j *Journal, end *pipe.End, p []byte, _ []int) { j.setTorn(); end.Write(p[:head(p)/2]) }},
	{"after the head", func(j *Journal, end *pipe.End, p []byte, _ []int) { j.setTorn(); end.Write(p[:head(p)]) }},
	{"in the stage", func(j *Journal, end *pipe.End, p []byte, _ []int) { inStage(j, end, p) }},
	{"noted as moving", func(j *Journal, end *pipe.End, p []byte, slots []int) { inStage(j, end, p); j.move(slots) }},
	{"half moved", func(j *Journal, end *pipe.End, p []byte, slots []int) {
		inStage(j, end, p)
		j.move(slots)
		j.output.Move(end, (len(p)-head(p))/2)
	}},
	{"moved", moved},
	{"moved, and one answer noted", func(j *Journal, end *pipe.End, p []byte, slots []int) {
		moved(j, end, p, slots)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.release(slots[:1])
	}},
	{"moved, and all noted but the end", func(j *Journal, end *pipe.End, p []byte, slots []int) {
		moved(j, end, p, slots)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.release(slots)
		j.mem[tornAt] = 0
	}},
	{"noted", func(j *Journal, end *pipe.End, p []byte, slots []int) { j.Write(end, p, slots) }},
}

func head(p []byte) int { return max(0, len(p)-maxStaged) }

func inStage(j *Journal, end *pipe.End, p []byte) {
	if head(p) > 0 {
		j.setTorn()
		end.Write(p[:head(p)])
	}
	j.output.Put(p[head(p):])
}

func moved(j *Journal, end *pipe.End, p []byte, slots []int) {
	inStage(j, end, p)
	j.move(slots)
	j.output.Move(end, len(p)-head(p))
}

// Whenever a router is killed while it writes answers, and the next one too before it
// writes anything, each request is answered once.
func TestOneAnswer(t *testing.T) {
	for _, size := range []int{10, 40_000} {
		for _, c := range staged {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/again=%v", c.name, size, again), func(t *testing.T) {
					stage, err := pipe.NewStage()
					if err != nil {
						t.Fatal(err)
					}
					defer stage.Close()
					if got := answersAfter(t, stage, c, size, again); got != "1: 1, 2: 1, 3: 1" {
						t.Errorf("answers: %s", got)
					}
				})
			}
		}
	}
}

// Without a stage, an answer is written twice if the router is killed just after it.
func TestTwoAnswersWithoutAStage(t *testing.T) {
	killed := cut{"written", func(_ *Journal, end *pipe.End, p []byte, _ []int) { end.Write(p) }}
	if got := answersAfter(t, nil, killed, 10, false); got != "1: 2, 2: 2, 3: 2" {
		t.Errorf("answers: %s", got)
	}
}

// answersAfter counts the answers to the requests 1, 2 and 3 when the router that writes them
// is killed. Of a large size, the only answer written is the first.
func answersAfter(t *testing.T, stage *pipe.Stage, c cut, size int, again bool) string {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	end := pipe.Inherited(to)
	defer to.Close()
	defer end.Close()
	mem := make([]byte, JournalSize)
	j := NewJournal(mem, stage)
	j.Open(strings.NewReader(""))
	var piece bytes.Buffer
	var slots []int
	for id := 1; id <= 3; id++ {
		slot := j.Begin(fmt.Append(nil, id))
		if id == 1 || size < maxStaged {
			slots = append(slots, slot)
			fmt.Fprintf(&piece, `{"jsonrpc":"2.0","id":%d,"result":{"x":"%s"}}`+"\n", id, strings.Repeat("x", size))
		}
	}
	c.do(j, end, piece.Bytes(), slots)
	if again {
		NewJournal(mem, stage).Open(strings.NewReader(""))
	}

	ctx, stop := context.WithCancel(t.Context())
	input, asks := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- server.New(newFake(), server.Options{}).Serve(ctx, input, end, NewJournal(mem, stage))
	}()
	fmt.Fprintln(asks, `{"jsonrpc":"2.0","id":99,"method":"ping"}`)
	count := make(map[string]int)
	for lines := bufio.NewReader(from); count["99"] == 0; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ ID json.RawMessage }
		if json.Unmarshal(line, &answer) == nil {
			count[string(answer.ID)]++
		}
	}
	stop()
	asks.Close()
	<-served
	return fmt.Sprintf("1: %d, 2: %d, 3: %d", count["1"], count["2"], count["3"])
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 1, io.ErrShortWrite }

// A write that fails answers nothing, and may have been torn.
func TestFailedWrite(t *testing.T) {
	mem := make([]byte, JournalSize)
	j := NewJournal(mem, nil)
	j.Open(strings.NewReader(""))
	if err := j.Write(failingWriter{}, make([]byte, tornAbove+1), []int{j.Begin([]byte("7"))}); err == nil {
		t.Error("the write did not fail")
	}
	if e := inherit(NewJournal(mem, nil)); len(e.Open) != 1 || !e.Torn {
		t.Errorf("the next router inherits %+v", e)
	}
}
