package adapter

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
)

// A setup is a configuration and the values derived from it. It is replaced, not modified.
type setup struct {
	file     config.Config             // as its source has it
	config   config.Config             // in use: with servers turned on and off by hand
	byHand   map[string]byHand         // by server
	policies map[string]execute.Policy // by server
	shared   map[string]bool           // servers that other nodes may use
	scripts  map[string]stored.Script  // by the ID of the tool
	replaced chan struct{}             // closed when another setup is in use
}

// A byHand is a server that a person turned on or off, until its entry is edited.
type byHand struct {
	off   bool
	entry config.Server // as it was when the person asked
}

func newSetup(file config.Config, wishes map[string]byHand) *setup {
	s := &setup{file: file, config: file, byHand: make(map[string]byHand), replaced: make(chan struct{})}
	s.config.Servers = slices.Clone(file.Servers)
	for i, entry := range file.Servers {
		s.config.Servers[i].StartTimeout = cmp.Or(entry.StartTimeout, 90*time.Second) // a program may have made the entry
		if wish, ok := wishes[entry.Name]; ok && reflect.DeepEqual(wish.entry, entry) {
			s.byHand[entry.Name] = wish
			s.config.Servers[i].Disabled, s.config.Servers[i].ByHand = wish.off, wish.off
		}
	}
	s.policies, s.shared = policies(s.config.Servers), sharedServers(s.config)
	s.scripts = storedScripts(s.config.Servers)
	return s
}

// has reports whether the configuration has the server.
func (s *setup) has(server string) bool {
	_, ok := s.policies[server]
	return ok
}

// entry returns the entry of the server, the zero value without one.
func (s *setup) entry(server string) (found config.Server) {
	if i := slices.IndexFunc(s.config.Servers, func(entry config.Server) bool { return entry.Name == server }); i >= 0 {
		found = s.config.Servers[i]
	}
	return found
}

// A holder holds the setup in use.
type holder struct {
	mu  sync.Mutex // one goroutine at a time replaces the setup
	now atomic.Pointer[setup]
}

func newHolder(c config.Config) *holder {
	h := new(holder)
	h.now.Store(newSetup(c, nil))
	return h
}

func (h *holder) load() *setup { return h.now.Load() }

// InUse implements [scope.Router].
func (h *holder) InUse() (*config.Config, <-chan struct{}) {
	now := h.load()
	return &now.config, now.replaced
}

// edit puts an edited configuration into use. It returns the setups before and after.
func (h *holder) edit(file config.Config) (before, after *setup) {
	return h.replace(func(now *setup) *setup { return newSetup(file, now.byHand) })
}

// turn turns the server of an entry on or off by hand.
func (h *holder) turn(entry config.Server, off bool) {
	h.replace(func(now *setup) *setup {
		wishes := maps.Clone(now.byHand)
		delete(wishes, entry.Name)
		if entry.Disabled != off {
			wishes[entry.Name] = byHand{off, entry}
		}
		return newSetup(now.file, wishes)
	})
}

func (h *holder) replace(next func(now *setup) *setup) (before, after *setup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.now.Load()
	after = next(before)
	h.now.Store(after)
	close(before.replaced)
	return before, after
}

// logEdit logs that an edit is in use, and which of its keys take effect at the router's next
// start. started is the configuration with which the router was made.
func logEdit(log *zap.Logger, started config.Router, before, after *setup) {
	log.Info("the edited configuration is in use")
	keys := config.RestartKeys(started, after.config.Router)
	if len(keys) > 0 && !slices.Equal(keys, config.RestartKeys(started, before.config.Router)) {
		log.Warn("the edit of these keys of \"metarouter\" takes effect at the router's next start", zap.Strings("keys", keys))
	}
}
