package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	// queuedLines bounds the lines that wait to be written. Further ones are dropped, so
	// that no call waits for a disk.
	queuedLines = 1024

	// atOnce bounds the lines that are written at once.
	atOnce = 64
)

// An AccessLog writes a line of JSON for each call to the file that the configuration names, which may
// be edited while the router runs. An AccessLog is an observer of a selector. Several processes may write to the same file.
type AccessLog struct {
	mask    *Mask
	log     *zap.Logger
	options atomic.Pointer[config.AccessLog]
	dropped atomic.Int64
	queue   chan queued
	written chan struct{} // closed when the last line is written
}

// A queued is a line to write, nil after the last one, and where.
type queued struct {
	line []byte
	to   config.AccessLog
}

func fileOf(o config.AccessLog) logfile.File {
	return logfile.File{Path: o.File, MaxSize: o.MaxSize, MaxFiles: o.MaxFiles}
}

// CanWrite fails if the access log that the configuration names can't be written.
func CanWrite(c config.Config) error {
	if c.Router.AccessLog.File == "" {
		return nil
	}
	if err := fileOf(c.Router.AccessLog).Create(); err != nil {
		return fmt.Errorf("metarouter.accessLog: %w", err)
	}
	return nil
}

// OpenAccessLog opens the log that the configuration names, if it names one. It must be closed.
func OpenAccessLog(c config.Config, mask *Mask, log *zap.Logger) (*AccessLog, error) {
	if err := CanWrite(c); err != nil {
		return nil, err
	}
	l := &AccessLog{mask: mask, log: log.Named("accesslog"), queue: make(chan queued, queuedLines), written: make(chan struct{})}
	l.options.Store(&c.Router.AccessLog)
	go l.write()
	return l, nil
}

// Edit continues in the file that an edited configuration names. If that can't be opened, the
// current one stays in use.
func (l *AccessLog) Edit(c config.Config) {
	if *l.options.Load() == c.Router.AccessLog {
		return
	}
	if err := CanWrite(c); err != nil {
		l.log.Warn(`the edit of "accessLog" can't be used; the access log stays as it was`, zap.Error(err))
		return
	}
	l.options.Store(&c.Router.AccessLog)
}

// Close writes the lines that wait, until ctx ends. Calls that end later are not logged.
func (l *AccessLog) Close(ctx context.Context) {
	l.options.Store(new(config.AccessLog))
	select {
	case l.queue <- queued{}:
	case <-ctx.Done():
	}
	select {
	case <-l.written:
	case <-ctx.Done():
		l.log.Warn("the last lines of the access log may not be written", zap.Error(ctx.Err()))
	}
}

// Dropped returns how many lines were not written: the disk was full, or slower than the
// calls.
func (l *AccessLog) Dropped() int64 { return l.dropped.Load() }

// Executed implements [selector.Observer].
func (l *AccessLog) Executed(e selector.Execution) {
	o := *l.options.Load()
	if o.File == "" {
		return
	}
	select {
	case l.queue <- queued{l.line(e, o), o}:
	default:
		l.dropped.Add(1)
	}
}

// Searched implements [selector.Observer]. Searches are not logged.
func (*AccessLog) Searched(selector.Search) {}

// write writes lines as they come, until the last one.
func (l *AccessLog) write() {
	defer close(l.written)
	var to config.AccessLog
	var lines []byte
	var n int64 // of lines
	failing := false
	flush := func() {
		if n == 0 {
			return
		}
		err := fileOf(to).Append(context.Background(), lines)
		if err != nil {
			l.dropped.Add(n)
		}
		if err != nil && !failing {
			l.log.Error("the access log can't be written; calls go on without it", zap.Error(err))
		}
		lines, n, failing = lines[:0], 0, err != nil
	}
	for next := range l.queue {
		if next.to != to {
			flush()
		}
		if next.line == nil {
			break
		}
		to, lines, n = next.to, append(lines, next.line...), n+1
		if len(l.queue) == 0 || n == atOnce {
			flush()
		}
	}
	if n := l.dropped.Load(); n > 0 {
		l.log.Warn("calls are missing in the access log, because it could not be written, or not fast enough", zap.Int64("lines", n))
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

func (l *AccessLog) line(e selector.Execution, o config.AccessLog) []byte {
	line := logLine{
		Time: e.Began.UTC(), Trace: e.Trace, Client: l.mask.short(e.Client), Principal: e.Principal, Profile: e.Profile, Script: e.Script,
		Server: serverOf(e.Tool), Tool: cmp.Or(e.Tool.Name, l.mask.short(e.Tool.ID)), Outcome: e.Outcome, Fault: l.mask.short(faultOf(e, o)),
		Latency: float64(e.Took.Microseconds()) / 1000, Attempts: e.Attempts, In: len(e.Arguments), Out: len(e.Result), Cached: e.Cached,
	}
	if e.Answered != nil && e.Answered != e.Tool {
		line.Answered = e.Answered.ID
	}
	if o.Arguments && e.Arguments != nil {
		line.Arguments = l.mask.append(nil, e.Arguments)
	}
	if o.Results && e.Result != nil {
		line.Result = l.mask.append(nil, e.Result)
	}
	return append(wire.Marshal(line), '\n')
}

// faultOf returns the reason of a failure. For invalid arguments that is only the place,
// unless arguments are logged.
func faultOf(e selector.Execution, o config.AccessLog) string {
	if e.Outcome != execute.InvalidArguments || o.Arguments {
		return e.Fault
	}
	path, _, _ := strings.Cut(e.Fault, ": ")
	return path
}
