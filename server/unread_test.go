package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A client that gives up its end of the input, though it never reads, does not
// keep Serve from returning: not even if an answer was written where its messages
// are read.
func TestUnreadQuickAnswer(t *testing.T) {
	for name, last := range map[string]string{
		"a quick answer": `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		"a refusal":      `{"jsonrpc":"2.0","id":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, inW := io.Pipe()
				outR, out := io.Pipe()
				served := make(chan error, 1)
				go func() { served <- serve(t.Context(), newAlone(newFake(), Options{}), in, out) }()
				fmt.Fprintln(inW, initializing)
				outR.Read(make([]byte, 4096))
				fmt.Fprintln(inW, last)
				inW.Close()
				<-served
				outR.Close()
			})
		})
	}
}

// A client that reads slowly gets all answers, also after the end of its input.
func TestSlowPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.execute = func(context.Context, selector.Call) (selector.Result, error) {
			return selector.Result{JSON: json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100_000) + `"}]}`)}, nil
		}
		outR, out := io.Pipe()
		served := make(chan error, 1)
		go func() {
			in := initializing + strings.Repeat("\n"+`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a__b"}}`, 10)
			served <- serve(t.Context(), newAlone(r, Options{Mode: exposure.Direct}), strings.NewReader(fmt.Sprintf(in, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)), out)
			out.Close()
		}()
		answers := 0
		for lines := bufio.NewReader(outR); ; answers++ {
			if _, err := lines.ReadString('\n'); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if err := <-served; err != nil || answers != 11 {
			t.Errorf("%d answers, %v", answers, err)
		}
	})
}

// A client may write many requests before it reads the first answer.
func TestPipelinedPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, inW := io.Pipe()
		outR, out := io.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- serve(t.Context(), newAlone(newFake(), Options{}), in, out)
			out.Close()
		}()
		written := make(chan struct{})
		go func() {
			defer close(written)
			fmt.Fprintln(inW, initializing)
			for i := range 100 {
				fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
			}
			inW.Close()
		}()
		<-written
		all, _ := io.ReadAll(outR)
		expect.Equal(t, strings.Count(string(all), "\n"), 101, "answers")
		<-served
	})
}
