// Package script runs programs in JavaScript that call tools. A script has bounds of time, memory and calls that hold
// against hostile code, and no file, network or process. [Declare] writes tools as TypeScript declarations for the models
// that write scripts; it is bounded too: parts of a schema beyond a bound are any.
package script

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// MaxCode is how many bytes of code a script may have.
const MaxCode = 64 << 10

// A Script is a program that calls tools.
type Script struct {
	Code    string
	Input   json.RawMessage // the value of the script's variable input; nil is undefined
	Timeout time.Duration   // of the script without its waits for a person; 0 is the Timeout of the Limits, which bounds it too
}

// Limits bound a script.
type Limits struct {
	Timeout    time.Duration // without waits for a person
	CPU        time.Duration // in the interpreter
	Memory     int64         // bytes of the interpreter
	Calls      int           // of tools, searches and descriptions
	Concurrent int           // calls at once
	Log        int           // bytes of the log that are kept
}

// DefaultLimits are the limits without a configuration.
var DefaultLimits = Limits{Timeout: time.Minute, CPU: 10 * time.Second, Memory: 64 << 20, Calls: 100, Concurrent: 8, Log: 16 << 10}

// orDefault returns the limits, with the default for each that is 0.
func (l Limits) orDefault() Limits {
	return Limits{cmp.Or(l.Timeout, DefaultLimits.Timeout), cmp.Or(l.CPU, DefaultLimits.CPU), cmp.Or(l.Memory, DefaultLimits.Memory),
		cmp.Or(l.Calls, DefaultLimits.Calls), cmp.Or(l.Concurrent, DefaultLimits.Concurrent), cmp.Or(l.Log, DefaultLimits.Log)}
}

// A Host does for a script what the script can't do itself. Its methods are called by several goroutines
// at once. [Pause] takes their context. A [CallError] says whether the script may try again.
type Host interface {
	// Call calls a tool of a server. The result is the result of tools/call. An error is that there is no result: the
	// tool is unknown, or the call failed; a *[Lost] in its chain ends the script.
	Call(ctx context.Context, c Call) (json.RawMessage, error)

	// Search returns the tools for a task, as a value for the script.
	Search(ctx context.Context, task string) (json.RawMessage, error)

	// Describe returns declarations of tools.
	Describe(ctx context.Context, ids []string) (json.RawMessage, error)
}

// A Call is a call of a script.
type Call struct {
	Number    int             `json:"-"` // from 1, in the order in which the script made its calls, searches and descriptions
	Tool      string          `json:"tool"`
	Line      int             `json:"line"` // of the script, from 1; 0 if it is not known
	Arguments json.RawMessage `json:"-"`
}

// An Outcome is what a script has given.
type Outcome struct {
	Value   json.RawMessage   `json:"value,omitempty"`   // JSON; nil for undefined
	Content []json.RawMessage `json:"content,omitempty"` // blocks of content that the script put into the answer by result(handle)
	Log     string            `json:"log"`               // the lines of console.log
	Calls   []Made            `json:"calls"`             // in the order in which they were made
	Err     *Error            `json:"error,omitempty"`   // why the script failed; nil if it did not
}

// Made is a call that a script made.
type Made struct {
	Call
	OK    bool `json:"ok"`              // it has a result that is no error
	Open  bool `json:"open,omitempty"`  // it was under way when the script ended: its effect is not known
	Reads bool `json:"reads,omitempty"` // its tool changes nothing; the host sets it
}

// Options are how a script runs.
type Options struct {
	Limits   Limits
	Progress func(done int, tool string) // is called when a call begins or ends, with the number of calls that ended; may be nil

	// Waiting is told when the script begins to wait for persons alone, and when it does so no more. It must
	// not block. It may be nil. If a call of another script runs this one, that script waits instead.
	Waiting func(bool)

	compileOnly bool // see [Engine.Compile]
}

// An Error is why a script failed.
type Error struct {
	// Name is the name of the exception, such as "TypeError" or "ToolError". Others are "LimitError" for a bound, "LostError"
	// for a call with an unknown effect, "CancelError", "BusyError" for too many scripts, and "InternalError".
	Name    string `json:"name"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`   // of the script as the model wrote it, from 1; 0 if it is not known
	Column  int    `json:"column,omitempty"` // in UTF-16 code units, from 1
}

// Error returns the name and the message.
func (e *Error) Error() string { return e.Name + ": " + e.Message }
