package reload

import (
	"reflect"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/config"
)

// A Source has the configuration in use, as [adapter.Router] does.
type Source interface {
	Config() config.Config
	Edited() <-chan struct{} // closed when another configuration is in use
}

// Follow returns a function that returns a value derived from the configuration in use, and a channel
// that is closed when another configuration is. The pointer is the same until an edit changes the
// value, which must not be modified.
func Follow[T any](r Source, derive func(config.Config) *T) func() (*T, <-chan struct{}) {
	type derived struct {
		value  *T
		edited <-chan struct{}
	}
	var last atomic.Pointer[derived]
	return func() (*T, <-chan struct{}) {
		edited := r.Edited()
		before := last.Load()
		if before != nil && before.edited == edited {
			return before.value, edited
		}
		next := &derived{derive(r.Config()), edited}
		if before != nil && reflect.DeepEqual(before.value, next.value) {
			next.value = before.value
		}
		last.Store(next)
		return next.value, edited
	}
}
