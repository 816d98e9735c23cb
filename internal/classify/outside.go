package classify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// Sessions connects to servers of the configuration.
type Sessions interface {
	// Session returns the server's live session. It waits while the server is
	// starting, until ctx ends.
	Session(ctx context.Context, server string, from session.Client) (session.Session, error)
}

// An answerError says why an answer cannot be used.
type answerError struct{ reason string }

func (e *answerError) Error() string { return e.reason }

func badAnswer(format string, args ...any) error { return &answerError{fmt.Sprintf(format, args...)} }

const (
	// probeText is a text that the server must be able to classify at each probe.
	probeText = "How many sides has a triangle?"

	firstProbe, lastProbe = 500 * time.Millisecond, 30 * time.Second

	// stableTime is how long a server must have been up for the pauses between probes to
	// start small again.
	stableTime = 10 * time.Second

	// Bounds of a list, in bytes. The built-in classifier is trained with names and
	// descriptions; its size is their product with the number of categories.
	maxName        = 200
	maxDescription = 500
	maxPrompt      = 8 << 10
	maxCategories  = 500      // including earlier lists
	maxTraining    = 64 << 10 // names and descriptions together
)

// An outside is the client of an outside classification server. run probes the server;
// classify asks it while it is up.
type outside struct {
	options config.Outside
	address string // the server's name, or its URL without query and password
	caller  caller
	merge   mergeFunc
	log     *zap.Logger
	soon    chan struct{} // has a token if a probe is due soon

	needed, probed   context.Context // end when the server is first needed, and after the first probe
	need, endOfProbe context.CancelFunc

	mu    sync.Mutex // guards the fields below
	list  []string   // its categories; nil before the first list
	index []int      // our index of each of them
	err   error      // why it is down; nil if it is up
	since time.Time
}

// A mergeFunc adds a checked list to the known categories, and returns our index of each
// of its categories. first says that it is the server's first list.
type mergeFunc func(list List, first bool) (index []int, err error)

var errNotTried = errors.New("it was not asked yet")

func newOutside(o config.Outside, servers Sessions, merge mergeFunc, log *zap.Logger) *outside {
	s := &outside{options: o, merge: merge, log: log, err: errNotTried, since: time.Now(), soon: make(chan struct{}, 1)}
	s.needed, s.need = context.WithCancel(context.Background())
	s.probed, s.endOfProbe = context.WithCancel(context.Background())
	if o.Server != "" {
		s.address, s.caller = o.Server, &sessionCaller{server: o.Server, listTool: o.ListTool, servers: servers}
	} else {
		s.caller, s.address = newHTTPCaller(o.URL, o.Headers)
	}
	return s
}

// run probes the server at once, then regularly and when probeSoon asks for it, until ctx
// ends.
func (s *outside) run(ctx context.Context) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstProbe, lastProbe
	for {
		err := s.probe(ctx)
		if ctx.Err() == nil {
			s.setState(err)
		}
		s.endOfProbe()
		if !s.waitForProbe(ctx, pauses) {
			return nil
		}
	}
}

// waitForProbe waits until the next probe is due. It returns false if ctx ends.
func (s *outside) waitForProbe(ctx context.Context, pauses *backoff.ExponentialBackOff) bool {
	if s.up() {
		began := time.Now()
		select {
		case <-time.After(s.options.RefreshInterval):
			return true
		case <-s.soon:
			if time.Since(began) > stableTime {
				pauses.Reset()
			}
		case <-ctx.Done():
			return false
		}
	}
	select {
	case <-time.After(pauses.NextBackOff()):
		select {
		case <-s.soon: // this probe serves it
		default:
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// probeSoon asks run for a probe. It returns false if one was due already.
func (s *outside) probeSoon() bool {
	select {
	case s.soon <- struct{}{}:
		return true
	default:
		return false
	}
}

// await waits for the end of the first probe, for at most the timeout.
func (s *outside) await(ctx context.Context) {
	s.need()
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	select {
	case <-s.probed.Done():
	case <-limited.Done():
	}
}

// probe asks the server for its list, and to classify probeText.
func (s *outside) probe(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	n := len(s.list)
	s.mu.Unlock()
	_, err := s.askVerdict(ctx, probeText, n)
	return err
}

// refresh asks the server for its list.
func (s *outside) refresh(ctx context.Context) error {
	var list List
	err := s.ask(ctx, s.options.ListTool, struct{}{}, &list)
	if err == nil {
		err = checkList(list, s.options.NumCategories)
	}
	if err == nil {
		err = s.setList(list)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.options.ListTool, err)
	}
	return nil
}

// checkList checks a list, which must have so many categories, or any number if it is 0.
func checkList(list List, wanted int) error {
	n := len(list.Categories)
	switch {
	case n == 0:
		return badAnswer("it has no categories")
	case n > maxCategories:
		return badAnswer("it has %d categories, and may have %d", n, maxCategories)
	case wanted > 0 && n != wanted:
		return badAnswer(`it has %d categories, and "num_categories" says %d`, n, wanted)
	}
	seen := make(map[string]bool, n)
	for _, name := range list.Categories {
		if name == "" || len(name) > maxName || seen[name] {
			return badAnswer("a category's name is empty, too long or there twice")
		}
		seen[name] = true
	}
	return nil
}

func (s *outside) setList(list List) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	index, err := s.merge(list, s.list == nil)
	if err != nil {
		return err
	}
	s.list, s.index = list.Categories, index
	return nil
}

// classify asks the server, unless it is down. index is our index of each of its
// categories.
func (s *outside) classify(ctx context.Context, text string) (v verdict, index []int, err error) {
	s.mu.Lock()
	index, err = s.index, s.err
	s.mu.Unlock()
	if err != nil {
		return v, nil, err
	}
	v, err = s.askVerdict(ctx, text, len(index))
	if errors.Is(err, errRestarted) && s.refresh(ctx) == nil {
		s.mu.Lock()
		index = s.index
		s.mu.Unlock()
		v, err = s.askVerdict(ctx, text, len(index))
	}
	_, bad := errors.AsType[*answerError](err)
	switch {
	case err == nil || errors.Is(ctx.Err(), context.Canceled): // the client has left, which says nothing about the server
	case bad || ctx.Err() != nil: // the text or the client's deadline may be the reason: a probe finds out
		if s.probeSoon() && bad {
			s.log.Warn("the outside classifier's answer can't be used; the built-in one's answer is given", zap.String("address", s.address), zap.Error(err))
		}
	default:
		s.setState(err)
	}
	return v, index, err
}

// setState says that the server is up, or why it is down.
func (s *outside) setState(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.err
	s.err = err
	if (before == nil) != (err == nil) {
		s.since = time.Now()
	}
	switch {
	case before != nil && err == nil:
		s.log.Info("the outside classifier is up", zap.String("address", s.address))
	case (before == nil || before == errNotTried) && err != nil:
		s.log.Warn("the outside classifier is down; the built-in one serves", zap.String("address", s.address), zap.Error(err))
	}
	if before == nil && err != nil {
		s.probeSoon()
	}
}

func (s *outside) up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil
}

func (s *outside) health() *OutsideHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &OutsideHealth{Address: s.address, State: "up", Since: s.since.UTC(), Source: sourceOutside}
	switch s.err {
	case nil:
	case errNotTried:
		h.State, h.Source = "starting", sourceBuiltin
	default:
		h.State, h.Source = "down", sourceBuiltin
		h.Error = fmt.Sprintf("%.300s", strings.Join(strings.Fields(s.err.Error()), " "))
	}
	return h
}
