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

// atOnce bounds the lines that are written at once.
const atOnce = 64

// An AccessLog writes a line of JSON for each call to the file that the configuration names, which may
// be edited while the router runs. Several processes may write to the same file.
type AccessLog struct {
	mask    *Mask
	log     *zap.Logger
	options atomic.Pointer[config.AccessLog]
	queue   *logfile.Queue[queued]
	failing bool // the last write failed
}

// A queued is a line to write, and where.
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
	l := &AccessLog{mask: mask, log: log.Named("accesslog")}
	l.options.Store(&c.Router.AccessLog)
	l.queue = logfile.NewQueue(atOnce, l.write)
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
	if err := l.queue.Close(ctx); err != nil {
		l.log.Warn("the last lines of the access log may not be written", zap.Error(err))
	}
	if n := l.Dropped(); n > 0 {
		l.log.Warn("calls are missing in the access log, because it could not be written, or not fast enough", zap.Int64("lines", n))
	}
}

// Dropped returns how many lines were not written: the disk was full, or slower than the
// calls.
func (l *AccessLog) Dropped() int64 { return l.queue.Lost.Load() }

// Executed has the line of a call written.
func (l *AccessLog) Executed(e selector.Execution) {
	if o := *l.options.Load(); o.File != "" {
		l.queue.Put(queued{l.line(e, o), o})
	}
}

// write writes lines, the lines of one file at once.
func (l *AccessLog) write(all []queued) {
	for len(all) > 0 {
		to, lines, n := all[0].to, all[0].line, 1
		for ; n < len(all) && all[n].to == to; n++ {
			lines = append(lines, all[n].line...)
		}
		all = all[n:]
		err := fileOf(to).Append(context.Background(), lines)
		if err != nil {
			l.queue.Lost.Add(int64(n))
		}
		if err != nil && !l.failing {
			l.log.Error("the access log can't be written; calls go on without it", zap.Error(err))
		}
		l.failing = err != nil
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
	fault := e.Fault
	if e.Outcome == execute.InvalidArguments && !o.Arguments { // the place, without the argument
		fault, _, _ = strings.Cut(fault, ": ")
	}
	line := logLine{
		Time: e.Began.UTC(), Trace: e.Trace, Client: l.mask.short(e.Client), Principal: e.Principal, Profile: e.Profile, Script: e.Script,
		Server: cmp.Or(e.Tool.Server, ownServer), Tool: cmp.Or(e.Tool.Name, l.mask.short(e.Tool.ID)), Outcome: e.Outcome, Fault: l.mask.short(fault),
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
