package web

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// maxPEM is the most bytes of a file of a certificate or a key.
const maxPEM = 1 << 20

// fileCheck is the least time between two looks at files.
const fileCheck = time.Second

// A reloaded is a value that files hold. The files are read again when the value is used, so it
// does not matter how they are replaced. While they hold no valid value, as between two writes,
// the last valid one stays in use.
type reloaded[T any] struct {
	what  string // the value, in errors
	files []string
	parse func(data [][]byte) (*T, error)
	note  func(value *T, again bool) // is notified of each new value; again: it replaces another one
	every time.Duration              // the least time between two looks at the files
	log   *zap.Logger

	current atomic.Pointer[T]

	mu     sync.Mutex // guards the fields below, and is held while the files are read
	looked time.Time
	seen   [sha256.Size]byte
}

// get returns the value. Of those that ask for it at once, one reads the files, and the others get
// the value in use.
func (r *reloaded[T]) get() *T {
	if r.mu.TryLock() {
		if time.Since(r.looked) >= r.every {
			if err := r.load(); err != nil {
				r.log.Error("a file can't be read again; its last content stays in use", zap.Error(err))
			}
		}
		r.mu.Unlock()
	}
	return r.current.Load()
}

// load reads the files, and the value if they differ from those that it has seen. r.mu must be held, but for the first time.
func (r *reloaded[T]) load() (err error) {
	r.looked = time.Now()
	data := make([][]byte, len(r.files))
	for i, file := range r.files {
		if data[i], err = safefile.Read(file, maxPEM); err != nil {
			break
		}
	}
	seen := sha256.Sum256(fmt.Append(bytes.Join(data, []byte{0}), err))
	if seen == r.seen {
		return nil
	}
	r.seen = seen
	if err != nil {
		return fmt.Errorf("%s: %w", r.what, err)
	}
	value, err := r.parse(data)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", r.what, strings.Join(r.files, " and "), err)
	}
	r.note(value, r.current.Swap(value) != nil)
	return nil
}
