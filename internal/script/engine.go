package script

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const (
	maxScripts = 32       // how many scripts an engine runs at once
	moreMemory = 32 << 20 // how many bytes all scripts together may have more than one script
)

var errClosed = errors.New("the engine is closed")

// An Engine runs scripts. It loads its interpreter for the first script.
type Engine struct {
	cacheDir string
	once     sync.Once
	program  *program      // set by once
	err      error         // set by once
	slots    chan struct{} // scripts
	turns    chan struct{} // scripts that compute
	mapped   budget

	ctx     context.Context // ends with the engine
	end     context.CancelCauseFunc
	closing sync.Once
}

// New returns an engine. It keeps machine code in a folder that only the user may write to, so that later processes
// load the interpreter in 20 ms instead of 700; with "", it keeps nothing.
func New(cacheDir string) *Engine {
	ctx, end := context.WithCancelCause(context.Background())
	return &Engine{ctx: ctx, end: end, cacheDir: cacheDir, slots: make(chan struct{}, maxScripts), turns: make(chan struct{}, max(runtime.GOMAXPROCS(0)-1, 1))}
}

// Close ends the scripts that run, waits for their ends, and frees the interpreter.
func (e *Engine) Close() (err error) {
	e.closing.Do(func() {
		e.end(errClosed)
		for range maxScripts {
			e.slots <- struct{}{}
		}
		if e.program != nil {
			err = e.program.runtime.Close(context.Background())
		}
	})
	return err
}

// Mapped returns how many bytes the scripts have that run now.
func (e *Engine) Mapped() int64 { return e.mapped.used.Load() }

// Run runs a script. It returns when the script has ended and its calls have too. A panic of a call is one of Run.
func (e *Engine) Run(ctx context.Context, s Script, h Host, o Options) Outcome {
	if len(s.Code) > MaxCode {
		return Outcome{Err: errorf("LimitError", "the script has %d bytes of code; at most %s are possible", len(s.Code), safefile.Size(MaxCode))}
	}
	if e.ctx.Err() != nil {
		return Outcome{Err: errorf("InternalError", "%v", errClosed)}
	}
	o.Limits = o.Limits.orDefault()
	if o.Progress == nil {
		o.Progress = func(int, string) {}
	}
	e.mapped.max.Store(o.Limits.Memory + moreMemory)
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	default:
		return Outcome{Err: errorf("BusyError", "%d scripts run already; try again later", maxScripts)}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(e.ctx, func() { end(errClosed) })()
	e.once.Do(func() { e.program, e.err = load(e.cacheDir, &e.mapped) })
	if e.err != nil {
		return Outcome{Err: errorf("InternalError", "load the interpreter of scripts: %v", e.err)}
	}
	if s.Timeout > 0 {
		o.Limits.Timeout = min(s.Timeout, o.Limits.Timeout)
	}
	r := newRun(ctx, s, h, o, e)
	value, err := r.execute(e.program)
	r.out.Value, r.out.Log, r.out.Content = value, r.log.String(), r.handles.content
	if err != nil {
		r.out.Err = r.failure(err)
	}
	return r.out
}

// Compile returns why a script does not compile, nil if it does. It runs nothing.
func (e *Engine) Compile(ctx context.Context, code string) *Error {
	return e.Run(ctx, Script{Code: code}, nil, Options{compileOnly: true}).Err
}
