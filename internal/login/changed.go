package login

import (
	"context"
	"time"
	"weak"
)

const (
	// lookTime is the time between two looks at the file while someone waits for a login.
	lookTime = time.Second
	// readTime bounds reading the file then: its key may be in a keyring that asks its user.
	readTime = 30 * time.Second
)

// Changed returns a channel that is closed when somebody has logged in or out, in this process or
// in another one, after the last result of Token or Refused. It is closed, too, when another router
// could refresh the token.
func (s *Source) Changed() <-chan struct{} {
	changed := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return changed
	}
	if s.watchers == nil {
		s.watchers = make(map[string]chan struct{})
	}
	if c, ok := s.watchers[s.seen]; ok {
		return c
	}
	s.watchers[s.seen] = changed
	// The goroutine does not hold the source, so that it ends with it.
	w := watcher{store: s.store, key: s.key, seen: s.seen, changed: changed}
	work, ctx, self := s.work, s.ctx, weak.Make(s)
	work.Go(func() {
		w.run(ctx)
		if s := self.Value(); s != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.watchers, w.seen)
		}
	})
	return changed
}

// A watcher waits until a login is another one.
type watcher struct {
	store     *Store
	key, seen string
	changed   chan struct{}
}

func (w *watcher) run(ctx context.Context) {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		written := w.store.written()
		if w.differs(ctx) {
			close(w.changed)
			return
		}
		select {
		case <-look.C:
		case <-written:
		case <-ctx.Done():
			return
		}
	}
}

// differs reports whether the login is another one. A file that can't be read may be readable
// later.
func (w *watcher) differs(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	e, err := w.store.login(ctx, w.key, false)
	return err == nil && mark(e) != w.seen
}
