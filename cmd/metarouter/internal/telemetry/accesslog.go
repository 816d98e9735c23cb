package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

// queuedLines bounds the lines that wait to be written. Further ones are dropped, so
// that no call waits for a disk.
const queuedLines = 1024

// An AccessLog writes a line of JSON for each call to the file that the configuration names, which may
// be edited while the router runs. When the file is full, it is kept under its name and the time. An
// AccessLog is an observer of a selector. Several processes may write to the same file.
type AccessLog struct {
	mask    *Mask
	log     *zap.Logger
	dropped atomic.Int64

	mu      sync.RWMutex // guards the fields below; a call holds it while its line is queued
	options config.AccessLog
	lines   *lineWriter // nil if there is no file
}

// CanWrite fails if the access log that the configuration names can't be written.
func CanWrite(c config.Config) error {
	if c.Router.AccessLog.File == "" {
		return nil
	}
	file, err := openRotated(c.Router.AccessLog)
	if err == nil {
		file.close()
	}
	return err
}

// OpenAccessLog opens the log that the configuration names, if it names one. It must be closed.
func OpenAccessLog(c config.Config, mask *Mask, log *zap.Logger) (l *AccessLog, err error) {
	l = &AccessLog{mask: mask, log: log.Named("accesslog"), options: c.Router.AccessLog}
	l.lines, err = l.open(l.options)
	return l, err
}

// open opens a file; nil if the configuration names no file.
func (l *AccessLog) open(o config.AccessLog) (*lineWriter, error) {
	if o.File == "" {
		return nil, nil
	}
	file, err := openRotated(o)
	if err != nil {
		return nil, err
	}
	w := &lineWriter{log: l.log, dropped: &l.dropped, queue: make(chan []byte, queuedLines), written: make(chan struct{})}
	go w.run(file)
	return w, nil
}

// closeTime is how long the last lines of an access log that an edit replaces may take to
// be written.
const closeTime = 5 * time.Second

// Edit continues in the file that an edited configuration names. If that can't be opened, the
// current one stays in use.
func (l *AccessLog) Edit(c config.Config) {
	l.mu.RLock()
	same := l.options == c.Router.AccessLog
	l.mu.RUnlock()
	if same {
		return
	}
	next, err := l.open(c.Router.AccessLog)
	if err != nil {
		l.log.Warn(`the edit of "accessLog" can't be used; the access log stays as it was`, zap.Error(err))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	l.replace(ctx, next, c.Router.AccessLog)
}

// Close writes the lines that wait, until ctx ends. Calls that end later count as dropped.
func (l *AccessLog) Close(ctx context.Context) { l.replace(ctx, nil, l.options) }

// replace replaces the file, and waits until the lines of the one before are written or ctx ends.
func (l *AccessLog) replace(ctx context.Context, next *lineWriter, o config.AccessLog) {
	l.mu.Lock()
	before := l.lines
	l.lines, l.options = next, o
	l.mu.Unlock()
	if before == nil {
		return
	}
	close(before.queue)
	select {
	case <-before.written:
	case <-ctx.Done():
		l.log.Warn("the last lines of the access log may not be written", zap.Error(ctx.Err()))
	}
}

// Dropped returns how many lines were not written: the disk was full, or slower than the
// calls.
func (l *AccessLog) Dropped() int64 { return l.dropped.Load() }

// Executed implements [selector.Observer].
func (l *AccessLog) Executed(e selector.Execution) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.options.File == "" {
		return
	}
	if l.lines != nil {
		select {
		case l.lines.queue <- l.line(e):
			return
		default:
		}
	}
	l.dropped.Add(1)
}

// Searched implements [selector.Observer]. Searches are not logged.
func (*AccessLog) Searched(selector.Search) {}

type lineWriter struct {
	log     *zap.Logger
	dropped *atomic.Int64
	queue   chan []byte
	written chan struct{} // closed when run has ended
}

// run writes lines as they come, until there are no more.
func (w *lineWriter) run(f *rotated) {
	defer close(w.written)
	defer f.close()
	failing := false
	defer func() {
		if n := w.dropped.Load(); n > 0 {
			w.log.Warn("calls are missing in the access log, because it could not be written, or not fast enough", zap.Int64("lines", n))
		}
	}()
	for line := range w.queue {
		err := f.write(line)
		if err != nil {
			w.dropped.Add(1)
		}
		if err != nil && !failing {
			w.log.Error("the access log can't be written; calls go on without it", zap.Error(err))
		}
		failing = err != nil
	}
}

// A logLine is a call in the access log.
type logLine struct {
	Time      time.Time       `json:"time"`
	Trace     string          `json:"trace_id"`
	Client    string          `json:"client,omitempty"`
	Principal string          `json:"principal,omitempty"`
	Profile   string          `json:"profile,omitempty"`
	Script    string          `json:"script,omitempty"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Answered  string          `json:"answered_by,omitempty"`
	Outcome   execute.Outcome `json:"outcome"`
	Fault     string          `json:"fault,omitempty"`
	Latency   float64         `json:"latency_ms"`
	Attempts  int             `json:"attempts"`
	In        int             `json:"bytes_in"`
	Out       int             `json:"bytes_out"`
	Cached    bool            `json:"cached,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

func (l *AccessLog) line(e selector.Execution) []byte {
	line := logLine{
		Time: e.Began.UTC(), Trace: e.Trace, Client: l.mask.short(e.Client), Principal: e.Principal, Profile: e.Profile, Script: e.Script,
		Server: serverOf(e.Tool), Tool: cmp.Or(e.Tool.Name, l.mask.short(e.Tool.ID)), Outcome: e.Outcome, Fault: l.mask.short(l.fault(e)),
		Latency: float64(e.Took.Microseconds()) / 1000, Attempts: e.Attempts, In: len(e.Arguments), Out: len(e.Result), Cached: e.Cached,
	}
	if e.Answered != nil && e.Answered != e.Tool {
		line.Answered = e.Answered.ID
	}
	if l.options.Arguments && e.Arguments != nil {
		line.Arguments = l.mask.append(nil, e.Arguments)
	}
	if l.options.Results && e.Result != nil {
		line.Result = l.mask.append(nil, e.Result)
	}
	return append(wire.Marshal(line), '\n')
}

// fault returns the reason of a failure. For invalid arguments that is only the place,
// unless arguments are logged.
func (l *AccessLog) fault(e selector.Execution) string {
	if e.Outcome != execute.InvalidArguments || l.options.Arguments {
		return e.Fault
	}
	path, _, _ := strings.Cut(e.Fault, ": ")
	return path
}
