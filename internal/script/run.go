package script

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// hostKey is the key of a context's run, for the functions that the interpreter calls.
type hostKey struct{}

// A run is a script that runs. One goroutine uses it; others make its calls, one at a time each.
type run struct {
	Options
	script Script
	host   Host

	parent context.Context
	ctx    context.Context // ends with the script
	cancel context.CancelCauseFunc
	cpu    *processor
	clock  *clock
	began  time.Time
	vm     *vm
	source source
	strip  uint64 // a function that strips types; 0 before it is needed
	inside bool   // a host function runs

	asked   int               // questions
	open    map[int]*question // without an answer
	queue   []*question       // not sent yet
	active  int               // sent
	done    int               // answered
	answers chan reply
	calls   sync.WaitGroup

	handles   handles
	unawaited rejections
	log       log
	out       Outcome
}

// A question is a call, a search or a description.
type question struct {
	Call
	kind string
	made int // its place in the outcome's calls; -1 for others
}

// A reply is an answer to a question.
type reply struct {
	*question
	value    json.RawMessage
	err      error
	panicked error // with the stack; nil without a panic
}

// A rejection is a promise that was rejected, and its reason.
type rejection struct{ promise, reason uint64 }

// rejections are the first 100 for which no code waits, in order.
type rejections []rejection

// note notes one for which no code waits, or that some code waits for it after all.
func (all *rejections) note(v *vm, new rejection, handled bool) {
	done := []rejection{new}
	if i := slices.IndexFunc(*all, func(old rejection) bool { return v.read(old.promise) == v.read(new.promise) }); i >= 0 {
		done = append(done, (*all)[i])
		*all = slices.Delete(*all, i, i+1)
	} else if !handled && len(*all) < 100 {
		*all, done = append(*all, new), nil
	}
	for _, one := range done {
		v.do("qjs_free_value", one.promise)
		v.do("qjs_free_value", one.reason)
	}
}

func newRun(ctx context.Context, s Script, h Host, o Options, e *Engine) *run {
	r := &run{script: s, host: h, Options: o, parent: ctx, began: time.Now().Truncate(time.Millisecond),
		open: map[int]*question{}, answers: make(chan reply, o.Limits.Concurrent), handles: handles{budget: &e.mapped}, log: log{max: o.Limits.Log}}
	if outer, ok := ctx.Value(clockKey{}).(*clock); ok { // a call of another script
		r.Waiting = func(begins bool) { outer.add(0, map[bool]int{true: 1, false: -1}[begins]) }
	}
	r.clock = &clock{limit: o.Limits.Timeout, changed: make(chan struct{}, 1), last: time.Now(), calls: 1, waiting: r.Waiting} // the interpreter counts as a call
	ctx = context.WithValue(context.WithValue(ctx, hostKey{}, r), clockKey{}, r.clock)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.cpu = newProcessor(e, o.Limits.CPU, func() {
		_, over := r.clock.left()
		r.cancel(cmp.Or(over, error(errorf("LimitError", "the script used more than %v of CPU time%s", o.Limits.CPU, boundBy("cpu")))))
	})
	return r
}

// close ends the calls and frees the memory.
func (r *run) close() {
	defer r.handles.close()
	if r.vm != nil {
		defer r.vm.close()
	}
	r.cancel(context.Canceled)
	r.calls.Wait()
	for len(r.answers) > 0 {
		r.missed(<-r.answers)
	}
}

// missed notes an answer that the script does not get, since it ends. Its call counts as made.
func (r *run) missed(a reply) {
	if a.panicked != nil {
		panic(a.panicked)
	}
	if a.made >= 0 {
		_, err := r.handles.value(a.value)
		r.out.Calls[a.made].OK = a.err == nil && err == nil
		r.out.Calls[a.made].Open = errors.Is(a.err, context.Cause(r.ctx))
	}
}

// execute runs the script, closes it and returns its value.
func (r *run) execute(p *program) (json.RawMessage, error) {
	defer r.close()
	var err error
	if r.vm, err = p.start(r.ctx, r.handles.budget, r.Limits.Memory); err != nil {
		return nil, errorf("BusyError", "start the script: %v; try again later", err)
	}
	if r.compileOnly {
		return nil, r.interpret(func() { r.compile() })
	}
	const fulfilled, rejected = 1, 2
	var promise, state uint64
	step := func() {
		r.vm.invoke(r.vm.layout.prelude["begin"], r.vm.string(string(r.script.Input)), r.vm.number(r.began.UnixMilli()))
		promise = r.vm.invoke(r.vm.layout.prelude["run"], r.compile(), r.vm.number(flag(r.source.callable)))
	}
	for {
		err = r.interpret(func() {
			step()
			for int32(r.vm.do("qjs_execute_pending_job")) != 0 {
			}
			state = r.vm.do("qjs_promise_state", promise)
		})
		if err != nil {
			return nil, err
		}
		if state == rejected || state == fulfilled && len(r.open) == 0 {
			return r.settled(promise, state == rejected)
		}
		next, err := r.next()
		if err != nil {
			return nil, err
		}
		step = r.delivery(next)
	}
}

// settled returns the value of a script that has ended.
func (r *run) settled(promise uint64, rejected bool) (value json.RawMessage, err error) {
	err = r.interpret(func() {
		result := r.vm.do("qjs_promise_result", promise)
		if rejected {
			panic(failure{r.explain(result)})
		}
		if len(r.unawaited) > 0 {
			e := r.explain(r.unawaited[0].reason)
			e.Message += `; the script went on, since it has no "await" before this`
			panic(failure{e})
		}
		encoded := r.vm.invoke(r.vm.layout.prelude["encode"], result)
		if r.vm.do("qjs_is_undefined", encoded) == 0 {
			value = json.RawMessage(r.vm.text(encoded, maxResult+1))
		}
	})
	if len(value) > maxResult {
		return nil, errorf("LimitError", "the script returns more than %s", safefile.Size(maxResult))
	}
	return value, err
}

// interpret runs something in the interpreter, within the script's CPU time.
func (r *run) interpret(do func()) error {
	if err := r.cpu.acquire(r.ctx, r.clock); err != nil {
		return err
	}
	err := r.vm.catch(do)
	if errors.Is(err, errException) {
		err = r.vm.catch(func() { panic(failure{r.exception(err)}) })
	}
	r.cpu.release()
	clear(r.vm.functions) // each has a stack, of up to 15 MiB
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return err
}

// next returns the next answer of the host.
func (r *run) next() (reply, error) {
	if len(r.open) == 0 {
		return reply{}, errorf("Error", "the script waits for a promise that nothing settles")
	}
	r.clock.add(-1, 0)
	defer r.clock.add(1, 0)
	for {
		left, over := r.clock.left()
		if over != nil {
			return reply{}, over
		}
		select {
		case next := <-r.answers:
			r.active--
			r.clock.add(-1, 0)
			return next, r.lost(next)
		case <-r.ctx.Done():
			return reply{}, context.Cause(r.ctx)
		case <-r.clock.changed:
		case <-time.After(left):
		}
	}
}

// lost returns why the script ends instead of getting an answer; nil if it gets it.
func (r *run) lost(a reply) error {
	if lost, ok := errors.AsType[*Lost](a.err); ok {
		return &Error{Name: "LostError", Message: lost.Error(), Line: a.Line}
	}
	if a.panicked != nil || r.ctx.Err() != nil { // which may be why the call failed
		r.missed(a)
	}
	return context.Cause(r.ctx)
}

// delivery returns the step that gives an answer to the script.
func (r *run) delivery(a reply) func() {
	delete(r.open, a.Number)
	value, err := a.value, a.err
	if err == nil && a.kind == "call" {
		value, err = r.handles.value(a.value)
	}
	tooLarge := func() error {
		return fmt.Errorf("the result of %s has %d bytes, which do not fit into the script's memory", a.Tool, len(value))
	}
	if len(value) > maxResult {
		err = tooLarge()
	}
	r.done++
	r.Progress(r.done, a.Tool)
	r.send()
	return func() {
		if err == nil {
			if text := r.vm.fitting(string(value)); text != 0 {
				r.vm.invoke(r.vm.layout.prelude["answer"], text, r.vm.number(int64(a.Number)), r.vm.number(flag(mayChange(value))))
			} else {
				err = tooLarge()
			}
		}
		if err != nil {
			failed, _ := errors.AsType[*CallError](err)
			r.vm.invoke(r.vm.layout.prelude["refuse"], r.vm.string(prose.Cut(err.Error(), maxMessage)), r.vm.number(int64(a.Number)), r.vm.number(flag(failed != nil && failed.Retry)))
		}
		if a.made >= 0 {
			r.out.Calls[a.made].OK = err == nil
		}
	}
}
