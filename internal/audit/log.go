package audit

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/logfile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

const (
	// queued bounds the events that wait to be written. Further ones are lost, so that no request
	// waits for a disk.
	queued = 1024

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
	mask   func(string) string
	log    *zap.Logger
	ended  chan struct{} // closed when the writer has ended
	closed context.Context
	close  context.CancelFunc
	ctx    context.Context
	abort  context.CancelFunc // ends a wait for the lock

	lost   atomic.Int64 // events that are not written and not noted as missing
	mu     sync.Mutex   // guards events from being closed while one is sent
	events chan Entry
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
	l := &Log{log: zap.NewNop(), mask: func(s string) string { return secret.Hide(s, "***") }, ended: make(chan struct{}), events: make(chan Entry, queued)}
	if o.Mask != nil {
		l.mask = o.Mask
	}
	if o.Log != nil {
		l.log = o.Log.Named("audit")
	}
	l.closed, l.close = context.WithCancel(context.Background())
	l.ctx, l.abort = context.WithCancel(context.Background())
	go l.run(f)
	return l, nil
}

// Record writes an event soon. It waits for no disk: when too many events wait, the event is
// lost, and the log says how many were. l may be nil, which records nothing.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	entry := Entry{Time: now(), Event: e.cleaned(l.mask)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Err() == nil {
		select {
		case l.events <- entry:
			return
		default:
		}
	}
	l.lost.Add(1)
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
	l.mu.Lock()
	if l.closed.Err() == nil {
		l.close()
		close(l.events)
	}
	l.mu.Unlock()
	defer l.abort()
	var err error
	select {
	case <-l.ended:
		if n := l.lost.Load(); n > 0 {
			err = fmt.Errorf("%d events could not be written", n)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		l.log.Error("events are missing at the end of the audit log", zap.Error(err))
	}
	return err
}

// run writes events as they come, until there are no more.
func (l *Log) run(f *file) {
	defer close(l.ended)
	for first := range l.events {
		entries := []Entry{first}
		for len(l.events) > 0 && len(entries) < atOnce {
			entries = append(entries, <-l.events)
		}
		l.write(f, entries)
		l.pause(breath)
	}
	if l.lost.Load() > 0 {
		l.write(f, nil)
	}
}

// write writes entries, and how many events are missing. It tries again until it succeeds or the
// log is closed.
func (l *Log) write(f *file, entries []Entry) {
	var complained time.Time
	for {
		lost := l.lost.Load()
		all := entries
		if lost > 0 {
			all = append(slices.Clip(entries), entryOf(Gap, fmt.Sprintf("%d events are missing: they could not be written fast enough, or at all", lost)))
		}
		err := f.append(l.ctx, all)
		if err == nil {
			l.lost.Add(-lost)
			return
		}
		if time.Since(complained) >= complainEach {
			complained = time.Now()
			l.log.Error("the audit log can't be written; it is tried again", zap.Error(err))
		}
		if !l.pause(retryPause) {
			l.lost.Add(int64(len(entries)))
			return
		}
	}
}

// pause waits. It reports false if the log is to be closed.
func (l *Log) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.closed.Done():
		return false
	}
}
