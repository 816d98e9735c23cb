package web

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// maxPEM is the most bytes of a file of a certificate or a key.
const maxPEM = 1 << 20

// fileCheck is the least time between two looks at files.
const fileCheck = time.Second

// A reloaded is a value that files hold. The files are read again when the value is used, so it
// does not matter how they are replaced. While they hold no valid value, as between two writes,
// the last valid one stays in use.
type reloaded[T any] struct {
	what  string                                               // the value, in logs
	read  func() (value *T, seen [sha256.Size]byte, err error) // seen changes when the files do
	use   func(value *T, again bool)                           // is notified of each new value; again: it replaces another one
	every time.Duration                                        // the least time between two looks at the files
	log   *zap.Logger

	current atomic.Pointer[T]

	mu     sync.Mutex // guards the fields below, and is held while the files are read
	looked time.Time
	seen   [sha256.Size]byte
}

// load reads the value for the first time.
func (r *reloaded[T]) load() error {
	value, seen, err := r.read()
	if err != nil {
		return err
	}
	r.current.Store(value)
	r.use(value, false)
	r.seen, r.looked = seen, time.Now()
	return nil
}

// get returns the value. Of those that ask for it at once, one reads the files, and the others get
// the value in use.
func (r *reloaded[T]) get() *T {
	if r.mu.TryLock() {
		r.refresh()
		r.mu.Unlock()
	}
	return r.current.Load()
}

// refresh reads the files, unless that was done just now. r.mu must be held.
func (r *reloaded[T]) refresh() {
	if time.Since(r.looked) < r.every {
		return
	}
	r.looked = time.Now()
	value, seen, err := r.read()
	if seen == r.seen {
		return
	}
	r.seen = seen
	if err != nil {
		r.log.Error(r.what+" can't be read again; the one in use stays", zap.Error(err))
		return
	}
	r.current.Store(value)
	r.use(value, true)
}
