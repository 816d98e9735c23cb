package telemetry

import (
	"context"
	"fmt"
	"strconv"
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

const (
	// queuedLines bounds the lines that wait to be written. Further ones are dropped, so
	// that no call waits for a disk.
	queuedLines = 1024

	// writtenAtOnce is the approximate size of one write, in bytes.
	writtenAtOnce = 64 << 10
)

// An AccessLog writes a line of JSON for each call. When the file is full, it is kept under
// its name and the time. An AccessLog is an observer of a selector. Several processes may
// write to the same file.
type AccessLog struct {
	options config.AccessLog
	mask    Mask
	log     *zap.Logger
	lines   chan []byte
	dropped atomic.Int64
	written chan struct{} // closed when the goroutine of write has ended

	mu     sync.RWMutex // guards what follows, and lines from being closed while one is sent
	closed bool
}

// CanWrite fails if the access log that the configuration names can't be written.
func CanWrite(c config.Config) error {
	if c.Router.AccessLog.File == "" {
		return nil
	}
	file, err := openRotated(c.Router.AccessLog)
	if err != nil {
		return fmt.Errorf("metarouter.accessLog: %w", err)
	}
	file.close()
	return nil
}

// OpenAccessLog opens the log that the configuration names. It must be closed.
func OpenAccessLog(c config.Config, log *zap.Logger) (*AccessLog, error) {
	o := c.Router.AccessLog
	file, err := openRotated(o)
	if err != nil {
		return nil, fmt.Errorf("metarouter.accessLog: %w", err)
	}
	l := &AccessLog{
		options: o, log: log.Named("accesslog"),
		lines: make(chan []byte, queuedLines), written: make(chan struct{}),
	}
	l.mask.Learn(c)
	go l.write(file)
	return l, nil
}

// Learn adds the secrets of an edited configuration to those that are hidden.
func (l *AccessLog) Learn(c config.Config) { l.mask.Learn(c) }

// Hide adds secrets that are in no configuration.
func (l *AccessLog) Hide(secrets []string) { l.mask.Add(secrets) }

// HideToken adds a token of a login.
func (l *AccessLog) HideToken(token string) { l.mask.AddToken(token) }

// Dropped returns the number of lines that were not written, because the disk was full or
// too slow.
func (l *AccessLog) Dropped() int64 { return l.dropped.Load() }

// Close writes the waiting lines, until ctx ends. Calls that end later are not logged.
func (l *AccessLog) Close(ctx context.Context) {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.lines)
	}
	l.mu.Unlock()
	select {
	case <-l.written:
	case <-ctx.Done():
		l.log.Warn("the last lines of the access log may not be written", zap.Error(ctx.Err()))
	}
}

// Executed implements [selector.Observer].
func (l *AccessLog) Executed(e selector.Execution) {
	line := l.line(e)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		l.dropped.Add(1)
		return
	}
	select {
	case l.lines <- line:
	default:
		l.dropped.Add(1)
	}
}

// Searched implements [selector.Observer]. Searches call nothing.
func (l *AccessLog) Searched(selector.Search) {}

// write writes lines as they come, until there are no more.
func (l *AccessLog) write(f *rotated) {
	defer close(l.written)
	defer f.close()
	failing, atOnce := false, min(writtenAtOnce, l.options.MaxSize)
	defer func() {
		if n := l.Dropped(); n > 0 {
			l.log.Warn("calls are missing in the access log, because it could not be written, or not fast enough", zap.Int64("lines", n))
		}
	}()
	for line := range l.lines {
		n := int64(1)
	gather:
		for int64(len(line)) < atOnce {
			select {
			case more, ok := <-l.lines:
				if !ok {
					break gather
				}
				line = append(line, more...)
				n++
			default:
				break gather
			}
		}
		err := f.write(line)
		if err != nil {
			l.dropped.Add(n)
		}
		if err != nil && !failing {
			l.log.Error("the access log can't be written; calls go on without it", zap.Error(err))
		}
		failing = err != nil
	}
}

// line returns the line of an execution.
func (l *AccessLog) line(e selector.Execution) []byte {
	b := make([]byte, 0, 384)
	b = append(b, `{"time":"`...)
	b = e.Began.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	text := func(key, value string) {
		b = append(append(append(b, `,"`...), key...), `":`...)
		b = wire.AppendString(b, value)
	}
	number := func(key string, value int) {
		b = append(append(append(b, `,"`...), key...), `":`...)
		b = strconv.AppendInt(b, int64(value), 10)
	}
	text("trace_id", e.Trace)
	if e.Client != "" {
		text("client", l.mask.short(e.Client))
	}
	if e.Principal != "" {
		text("principal", e.Principal)
	}
	if e.Profile != "" {
		text("profile", e.Profile)
	}
	text("server", serverOf(e.Tool))
	if e.Tool.Name != "" {
		text("tool", e.Tool.Name)
	} else {
		text("tool", l.mask.short(e.Tool.ID))
	}
	if e.Answered != nil && e.Answered != e.Tool {
		text("answered_by", e.Answered.ID)
	}
	text("outcome", string(e.Outcome))
	if fault := l.fault(e); fault != "" {
		text("fault", l.mask.short(fault))
	}
	b = append(b, `,"latency_ms":`...)
	b = strconv.AppendFloat(b, float64(e.Took.Microseconds())/1000, 'f', -1, 64)
	number("attempts", e.Attempts)
	number("bytes_in", len(e.Arguments))
	number("bytes_out", len(e.Result))
	if e.Cached {
		b = append(b, `,"cached":true`...)
	}
	if l.options.Arguments && e.Arguments != nil {
		b = l.mask.append(append(b, `,"arguments":`...), e.Arguments)
	}
	if l.options.Results && e.Result != nil {
		b = l.mask.append(append(b, `,"result":`...), e.Result)
	}
	return append(b, "}\n"...)
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
