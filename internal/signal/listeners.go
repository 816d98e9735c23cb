package signal

import (
	"iter"
	"sync"
)

// Listeners are functions that hear of something. The zero value is empty.
type Listeners[F any] struct{ all sync.Map } // keys: *F

// Add adds a listener, which stop removes.
func (l *Listeners[F]) Add(one F) (stop func()) {
	l.all.Store(&one, nil)
	return func() { l.all.Delete(&one) }
}

// All returns the listeners in any order.
func (l *Listeners[F]) All() iter.Seq[F] {
	return func(yield func(F) bool) {
		l.all.Range(func(one, _ any) bool { return yield(*one.(*F)) })
	}
}
