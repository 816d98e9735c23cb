package login

import (
	"context"
	"time"
	"weak"
)

const (
	// lookTime is the time between two looks at the file while a caller waits for a login.
	lookTime = time.Second
	// readTime bounds reading the file then: its key may be in a keyring that asks its user.
	readTime = 30 * time.Second
)

// Changed returns a channel that is closed when a person has logged in or out, in this process or
// in another one, after the last result of Token or Refused. It is closed, too, when another router
// could refresh the token.
func (s *Source) Changed() <-chan struct{} {
	seen, _ := s.account.state()
	t := &s.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.watched[seen]; ok {
		return c
	}
	changed := make(chan struct{})
	if t.closed {
		return changed
	}
	t.watched[seen] = changed
	// The goroutine does not hold the source, so that it ends with it.
	store, key, ctx, self := s.account.store, s.account.key, t.ctx, weak.Make(s)
	t.watches.Go(func() {
		if store.awaitOther(ctx, key, seen) {
			close(changed)
		}
		if s := self.Value(); s != nil {
			s.tasks.mu.Lock()
			defer s.tasks.mu.Unlock()
			delete(s.tasks.watched, seen)
		}
	})
	return changed
}

// awaitOther waits until the login with the key has another token than the seen one, as mark
// identifies it. It reports false if ctx ends first.
func (s *Store) awaitOther(ctx context.Context, key, seen string) bool {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		written := s.wrote.Next()
		bounded, cancel := context.WithTimeout(ctx, readTime)
		l, err := s.login(bounded, key, false)
		cancel()
		if err == nil && mark(l) != seen { // a file that can't be read may be readable later
			return true
		}
		select {
		case <-look.C:
		case <-written:
		case <-ctx.Done():
			return false
		}
	}
}
