package classify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/session"
)

// Sessions is how servers of the configuration are reached.
type Sessions interface {
	// Session returns the server's live session. It waits while the server is
	// starting, until ctx ends.
	Session(ctx context.Context, server string, from session.Client) (session.Session, error)
}

// A caller calls a tool of the outside server and returns the CallToolResult. An
// error that is no [*refusal] means that the server could not be reached.
type caller interface {
	call(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
	close()
}

// A refusal is an answer that can't be used.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

const (
	// probeText is what the server must be able to classify whenever it is looked at.
	probeText = "How many sides has a triangle?"

	firstProbe, lastProbe = 500 * time.Millisecond, 30 * time.Second

	// settled is how long a server must have been left alone to be looked at soon when
	// it is doubted again.
	settled = 10 * time.Second

	// Bounds of what a server may say, in bytes. What the built-in classifier is to
	// learn, names and descriptions, makes it as big as their product with the number of
	// categories.
	maxName        = 200
	maxDescription = 500
	maxPrompt      = 8 << 10
	maxCategories  = 500      // all that it has ever had
	maxLearned     = 64 << 10 // their names and descriptions
)

// An outside is a classification server of somebody else's.
type outside struct {
	options config.Outside
	address string // the server's name, or its URL without what may be secret
	caller  caller
	learn   learner
	log     *zap.Logger
	needed  chan struct{} // closed when somebody wants it
	need    func()        // closes needed
	tried   chan struct{} // closed when it was first looked at
	doubted chan struct{} // holds a signal when it is to be looked at soon

	mu         sync.Mutex // guards what follows
	list       []string   // its categories; nil until it was heard
	index      []int      // ours of each of them
	err        error      // why it is down; nil if it is up
	since      time.Time
	generation int           // how often it came up or changed its list
	changed    chan struct{} // closed when it goes down, comes up or changes its list, then itself replaced
}

var errNotTried = errors.New("it was not asked yet")

func newOutside(o config.Outside, servers Sessions, learn learner, log *zap.Logger) *outside {
	s := &outside{
		options: o, learn: learn, log: log, err: errNotTried, since: time.Now(),
		needed: make(chan struct{}), tried: make(chan struct{}), doubted: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	s.need = sync.OnceFunc(func() { close(s.needed) })
	if o.Server != "" {
		s.address, s.caller = o.Server, &entry{server: o.Server, list: o.ListTool, servers: servers}
	} else {
		w := newWeb(o.URL, o.Headers)
		s.address, s.caller = w.url, w
	}
	return s
}

func (s *outside) close() { s.caller.close() }

// run looks at the server at first, every so often and when it is doubted, until
// ctx ends.
func (s *outside) run(ctx context.Context) error {
	probes := backoff.NewExponentialBackOff()
	probes.InitialInterval, probes.MaxInterval = firstProbe, lastProbe
	for first := true; ; first = false {
		err := s.look(ctx)
		if ctx.Err() == nil {
			s.note(err)
		}
		if first {
			close(s.tried)
		}
		if !s.rest(ctx, probes) {
			return nil
		}
	}
}

// rest returns true when the server is to be looked at again, and false when ctx
// has ended.
func (s *outside) rest(ctx context.Context, probes *backoff.ExponentialBackOff) bool {
	if s.up() {
		began := time.Now()
		select {
		case <-time.After(s.options.RefreshInterval):
			return true
		case <-s.doubted:
			if time.Since(began) > settled {
				probes.Reset()
			}
		case <-ctx.Done():
			return false
		}
	}
	select {
	case <-time.After(probes.NextBackOff()):
		select {
		case <-s.doubted: // the look will tell
		default:
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// doubt has the server looked at soon. It returns false if that was due already.
func (s *outside) doubt() bool {
	select {
	case s.doubted <- struct{}{}:
		return true
	default:
		return false
	}
}

// await returns when the server was first tried, or ctx ends.
func (s *outside) await(ctx context.Context) {
	s.need()
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	select {
	case <-s.tried:
	case <-limited.Done():
	}
}

func (s *outside) up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil
}

// state returns the server's generation, 0 while it is down, and what is closed when
// that is another.
func (s *outside) state() (generation int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.changed
	}
	return s.generation, s.changed
}

// renew begins a generation; s.mu is held.
func (s *outside) renew() {
	s.generation++
	close(s.changed)
	s.changed = make(chan struct{})
}

// note says what came of asking the server: nil, or why it is down.
func (s *outside) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.err
	s.err = err
	if (was == nil) != (err == nil) {
		s.since = time.Now()
		s.renew()
	}
	switch {
	case was != nil && err == nil:
		s.log.Info("the outside classifier is up", zap.String("address", s.address))
	case (was == nil || was == errNotTried) && err != nil:
		s.log.Warn("the outside classifier is down; the built-in one serves", zap.String("address", s.address), zap.Error(err))
	}
	if was == nil && err != nil {
		s.doubt()
	}
}

func (s *outside) health() *OutsideHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &OutsideHealth{Address: s.address, State: "up", Since: s.since.UTC(), Source: Outside}
	switch s.err {
	case nil:
	case errNotTried:
		h.State, h.Source = "starting", Builtin
	default:
		h.State, h.Source = "down", Builtin
		h.Error = fmt.Sprintf("%.300s", strings.Join(strings.Fields(s.err.Error()), " "))
	}
	return h
}

// A learner takes in a list that was found sound, the first or a later one, and
// returns our index of each of its categories.
type learner func(list List, first bool) (index []int, err error)

// look asks for the list, and whether the server can classify.
func (s *outside) look(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	n := len(s.list)
	s.mu.Unlock()
	_, err := s.decide(ctx, probeText, n)
	return err
}

// refresh asks for the list.
func (s *outside) refresh(ctx context.Context) error {
	var list List
	err := s.ask(ctx, s.options.ListTool, struct{}{}, &list)
	if err == nil {
		err = s.checkList(list)
	}
	if err == nil {
		err = s.adopt(list)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.options.ListTool, err)
	}
	return nil
}

// adopt makes the list that of the server.
func (s *outside) adopt(list List) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	index, err := s.learn(list, s.list == nil)
	if err != nil {
		return err
	}
	if !slices.Equal(s.list, list.Categories) {
		s.renew()
	}
	s.list, s.index = list.Categories, index
	return nil
}

func (s *outside) checkList(list List) error {
	n := len(list.Categories)
	switch {
	case n == 0:
		return refuse("it has no categories")
	case n > maxCategories:
		return refuse("it has %d categories, and may have %d", n, maxCategories)
	case s.options.NumCategories > 0 && n != s.options.NumCategories:
		return refuse(`it has %d categories, and "num_categories" says %d`, n, s.options.NumCategories)
	}
	seen := make(map[string]bool, n)
	for _, name := range list.Categories {
		if name == "" || len(name) > maxName || seen[name] {
			return refuse("a category's name is empty, too long or there twice")
		}
		seen[name] = true
	}
	return nil
}

// classify asks the server, unless it is down. index is ours of each of its
// categories.
func (s *outside) classify(ctx context.Context, text string) (v opinion, index []int, err error) {
	s.mu.Lock()
	index, err = s.index, s.err
	s.mu.Unlock()
	if err != nil {
		return v, nil, err
	}
	v, err = s.decide(ctx, text, len(index))
	if errors.Is(err, errAnew) && s.refresh(ctx) == nil {
		s.mu.Lock()
		s.renew()
		index = s.index
		s.mu.Unlock()
		v, err = s.decide(ctx, text, len(index))
	}
	_, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil || errors.Is(ctx.Err(), context.Canceled): // the client has left, which says nothing about the server
	case refused || ctx.Err() != nil: // is it the text, or the client's impatience?
		if s.doubt() && refused {
			s.log.Warn("what the outside classifier answers can't be used; the built-in one's answer is given", zap.String("address", s.address), zap.Error(err))
		}
	default:
		s.note(err)
	}
	return v, index, err
}
