package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// hostCall is the function that the prelude calls with a text. It returns a number.
func hostCall(ctx context.Context, mod api.Module, s []uint64) {
	r := ctx.Value(hostKey{}).(*run)
	if n := uint32(s[3]); r.inside || n != 1 {
		panic(fmt.Errorf("the host's function was called with %d arguments, or inside itself", n))
	}
	r.inside = true
	at, _ := mod.Memory().ReadUint32Le(uint32(s[4]))
	s[0] = r.vm.number(r.asks(r.vm.text(uint64(at), maxHost)))
	r.inside = false
}

// asks does a thing for the script.
func (r *run) asks(text string) int64 {
	kind, text, _ := strings.Cut(text, "\n")
	switch kind {
	case "log":
		r.log.print(text)
		return 0
	case "result":
		return flag(r.handles.give(text))
	}
	if r.compileOnly {
		r.cancel(errorf("SyntaxError", "the code ends the function that it is the body of"))
		return 0
	}
	quoted, text, _ := strings.Cut(text, "\n")
	text, stack, _ := strings.Cut(text, "\n")
	r.asked++
	line, _ := r.source.place(stack)
	var name string
	var err error
	switch {
	case json.Unmarshal([]byte(quoted), &name) != nil || !wire.Valid([]byte(text)) || kind != "call" && kind != "search" && kind != "describe":
		err = &Error{Name: "InternalError", Message: "the prelude asked for something that is no call, search or description", Line: line}
	case r.asked > r.Limits.Calls:
		err = &Error{Name: "LimitError", Message: fmt.Sprintf("the script makes more than %d calls%s", r.Limits.Calls, boundBy("calls")), Line: line}
	default:
		err = r.handles.take(len(name) + len(text))
	}
	if err != nil {
		r.cancel(err)
		return int64(r.asked)
	}
	q := &question{Call: Call{Number: r.asked, Line: line, Tool: name, Arguments: json.RawMessage(text)}, kind: kind, made: -1}
	if kind == "call" {
		q.made = len(r.out.Calls)
		r.out.Calls = append(r.out.Calls, Made{Call: q.Call})
	}
	r.open[q.Number] = q
	r.queue = append(r.queue, q)
	r.send()
	return int64(q.Number)
}

// send asks the host as many questions as may be open at once.
func (r *run) send() {
	for len(r.queue) > 0 && r.active < r.Limits.Concurrent && r.ctx.Err() == nil {
		q := r.queue[0]
		r.queue = r.queue[1:]
		r.active++
		r.clock.add(1, 0)
		r.Progress(r.done, q.Tool)
		r.calls.Go(func() {
			a := reply{question: q}
			defer func() {
				if p := recover(); p != nil {
					a.panicked = fmt.Errorf("%v\n%s", p, debug.Stack())
				}
				r.answers <- a // has room for it
			}()
			a.value, a.err = q.answer(r.ctx, r.host)
		})
	}
}

// answer asks the host.
func (q *question) answer(ctx context.Context, h Host) (json.RawMessage, error) {
	if n := len(q.Arguments); q.kind != "call" && n > maxQuestion {
		return nil, fmt.Errorf("%s: its argument has %d bytes as JSON; give at most %d", q.kind, n, maxQuestion)
	}
	switch q.kind {
	case "search":
		var task string
		_ = json.Unmarshal(q.Arguments, &task) // the prelude makes it a string
		return h.Search(ctx, task)
	case "describe":
		var ids []string
		if err := json.Unmarshal(q.Arguments, &ids); err != nil {
			return nil, errors.New("describe: the ids are no list of strings")
		}
		return h.Describe(ctx, ids)
	default:
		return h.Call(ctx, q.Call)
	}
}

// A log has the lines that the script logs, up to max bytes.
type log struct {
	strings.Builder
	max int
	cut bool // it is not complete
}

func (l *log) print(line string) {
	left := l.max - l.Len()
	if !l.cut && len(line) < left {
		l.WriteString(line + "\n")
	} else if !l.cut {
		l.cut = true
		fmt.Fprintf(l, "%s\n(the log is cut at %d bytes)\n", prose.Cut(line, max(left, 0)+len("…")), l.max)
	}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
