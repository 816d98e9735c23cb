package audit

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// atOnce bounds the events that are written under one lock.
	atOnce = 256

	breath       = 20 * time.Millisecond // after a write, in which other processes get the lock
	retryPause   = time.Second           // after a failure
	complainEach = time.Minute           // how often a failure is logged
)

// Options configure a [Log].
type Options struct {
	File     string              // absolute; its folder is created
	MaxSize  int64               // bytes of a file, after which another is begun; 0 is 10 MiB
	MaxFiles int                 // number of files that are kept, including the current one; 0 is 10
	Mask     func(string) string // hides secrets in a text, besides those that look like one; nil hides no others
	Log      *zap.Logger         // nil is silence
}

// A Log writes events to a file. Its methods may be called by many goroutines at once.
type Log struct {
	mask     func(string) string
	log      *zap.Logger
	file     *file
	queue    *logfile.Queue[Entry]
	ctx      context.Context
	abort    context.CancelFunc // ends a wait for the lock
	complain rate.Sometimes     // of a failure
}

// Check returns why Open would fail, as far as this can be found out. It creates the file.
func Check(o Options) error {
	_, err := newFile(o)
	return err
}

func newFile(o Options) (*file, error) {
	f := &file{File: logfile.File{Path: o.File, MaxSize: cmp.Or(o.MaxSize, 10<<20), MaxFiles: cmp.Or(o.MaxFiles, 10), Sync: true}}
	return f, f.create()
}

// Open opens the log, and creates the file with mode 0600. It must be closed. The error is that
// the file can't be used: it can't be created or written, is a link or a device, or other users
// can change it.
func Open(o Options) (*Log, error) {
	f, err := newFile(o)
	if err != nil {
		return nil, err
	}
	l := &Log{log: zap.NewNop(), mask: func(s string) string { return secret.Hide(s, "***") }, file: f, complain: rate.Sometimes{Interval: complainEach}}
	if o.Mask != nil {
		l.mask = o.Mask
	}
	if o.Log != nil {
		l.log = o.Log.Named("audit")
	}
	l.ctx, l.abort = context.WithCancel(context.Background())
	l.queue = logfile.NewQueue(atOnce, l.write)
	return l, nil
}

// Record writes an event soon. It waits for no disk: when too many events wait, the event is
// lost, and the log says how many were. l may be nil, which records nothing.
func (l *Log) Record(e Event) {
	if l != nil {
		l.queue.Put(Entry{Time: now(), Event: e.cleaned(l.mask)})
	}
}

// Exists reports whether there is a log at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || len(logfile.Old(path)) > 0
}

// Close writes the waiting events, until ctx ends. Later events are lost. The error says that
// events are missing at the end; it is logged, too. l may be nil.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	defer l.abort()
	err := l.queue.Close(ctx)
	if n := l.queue.Lost.Load(); err == nil && n > 0 {
		err = fmt.Errorf("%d events could not be written", n)
	}
	if err != nil {
		l.log.Error("events are missing at the end of the audit log", zap.Error(err))
	}
	return err
}

// write writes entries, and how many events are missing. It tries again until it succeeds or the
// log is closed.
func (l *Log) write(entries []Entry) {
	for {
		lost := l.queue.Lost.Load()
		all := entries
		if lost > 0 {
			all = append(slices.Clip(entries), entryOf(Gap, fmt.Sprintf("%d events are missing: they could not be written fast enough, or at all", lost)))
		}
		if len(all) == 0 {
			return
		}
		err := l.file.append(l.ctx, all)
		if err == nil {
			l.queue.Lost.Add(-lost)
			signal.Within(l.queue.Closed(), breath)
			return
		}
		l.complain.Do(func() { l.log.Error("the audit log can't be written; it is tried again", zap.Error(err)) })
		if signal.Within(l.queue.Closed(), retryPause) {
			l.queue.Lost.Add(int64(len(entries)))
			return
		}
	}
}
