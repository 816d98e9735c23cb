package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// Lost is an error of a call whose effect is unknown. It ends the script.
type Lost struct {
	Tool string
	Err  error // why it is unknown
}

// Error says which call's effect is unknown.
func (l *Lost) Error() string {
	return fmt.Sprintf("the result of %s was lost, so that its effect is unknown: %v", l.Tool, l.Err)
}

// Unwrap returns the reason.
func (l *Lost) Unwrap() error { return l.Err }

// A CallError is why a call has no result, for a [Host].
type CallError struct {
	Message string
	Retry   bool // the script may try again
}

func (e *CallError) Error() string { return e.Message }

func errorf(name, format string, args ...any) *Error {
	return &Error{Name: name, Message: fmt.Sprintf(format, args...)}
}

// failure says why a script failed.
func (r *run) failure(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		if made := len(r.out.Calls); e.Name == "LimitError" && e.Line == 0 && made > 0 {
			e.Message += fmt.Sprintf("; its last call is on line %d", r.out.Calls[made-1].Line)
		}
		return e
	}
	if r.parent.Err() != nil {
		return errorf("CancelError", "the script was cancelled: %v", context.Cause(r.parent))
	}
	if r.vm.memory.full || errors.Is(err, errNoMemory) {
		return errMemory(r.Limits.Memory)
	}
	return errorf("InternalError", "the interpreter of scripts failed: %s", prose.Cut(err.Error(), 300))
}

// What a script does instead of using what other programs have.
const (
	noModules = `: a script has no modules, files or processes; tools have: find one by await search("the task")`
	noNetwork = `: a script has no network; tools have: find one by await search("the task")`
	noTimers  = `: a script has no timers; leave the pause out, since await waits for each call`
)

// absent has what to say of names that other programs have.
var absent = map[string]string{"require": noModules, "process": noModules, "module": noModules, "fs": noModules, "Deno": noModules,
	"fetch": noNetwork, "XMLHttpRequest": noNetwork, "WebSocket": noNetwork, "setTimeout": noTimers, "setInterval": noTimers, "setImmediate": noTimers}

func errMemory(max int64) *Error {
	return errorf("LimitError", "the script needs more than %s of memory%s, or other scripts have all that is left", safefile.Size(max), boundBy("memory"))
}

// boundBy says which key of the configuration sets a bound.
func boundBy(key string) string { return fmt.Sprintf(" (%q of \"scripts\" in the configuration)", key) }

// exception takes the exception that waits in the interpreter. It panics with an error that is no exception.
func (r *run) exception(err error) (e *Error) {
	if errors.Is(err, errException) {
		err = r.vm.catch(func() { e = r.explain(r.vm.do("qjs_get_exception")) })
	}
	if errors.Is(err, errException) {
		return errorf("Error", "the script threw an error that can't be read")
	}
	if err != nil {
		panic(failure{err})
	}
	return e
}

// explain returns a thrown value as an error.
func (r *run) explain(thrown uint64) *Error {
	var said struct{ Name, Message, Stack string }
	text := r.vm.text(r.vm.invoke(r.vm.layout.prelude["explain"], thrown), maxHost)
	_ = json.Unmarshal([]byte(text), &said) // the prelude made it
	e := &Error{Name: said.Name, Message: said.Message}
	if said.Message == "out of memory" {
		e = errMemory(r.Limits.Memory)
	}
	if e.Name == "BusyError" || e.Name == "LostError" { // the script has these names from us: callers rely on them
		e.Name = "Error"
	}
	name, isMissing := strings.CutSuffix(e.Message, " is not defined")
	if isMissing {
		e.Message += absent[name]
	} else if strings.HasPrefix(e.Message, "could not load module ") {
		e.Message += noModules
	}
	e.Line, e.Column = r.source.place(said.Stack)
	return e
}
