package classify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// Tolerances of the protocol: of the sum of probabilities, and by how much the
// class may be less probable than another one.
const (
	sumTolerance = 0.05
	leastShare   = 0.9
	rounding     = 1e-6 // of a float32 that is 1
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

// An opinion is what the server says of a text.
type opinion struct {
	Class         int
	Confidence    float64
	Probabilities []float64 // one for each of its categories
	Model         string
	UseReasoning  *bool
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

// decide asks the server, which has n categories, and believes nothing that is not
// sound.
func (s *outside) decide(ctx context.Context, text string, n int) (v opinion, err error) {
	var said struct {
		Class         *int      `json:"class"`
		Confidence    *float64  `json:"confidence"`
		Probabilities []float64 `json:"probabilities"`
		Model         string    `json:"model"`
		UseReasoning  *bool     `json:"use_reasoning"`
		Degraded      bool      `json:"degraded"` // only a router says so: see Outcome
	}
	arguments := struct {
		Text              string `json:"text"`
		WithProbabilities bool   `json:"with_probabilities"`
	}{text, true}
	if err := s.ask(ctx, s.options.ClassifyTool, arguments, &said); err != nil {
		return v, fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
	}
	switch {
	case said.Degraded: // it may be ourselves that it waits for
		return v, refuse("%s: its own outside classifier is down", s.options.ClassifyTool)
	case said.Class == nil || said.Confidence == nil:
		return v, refuse("%s: the answer lacks a class or a confidence", s.options.ClassifyTool)
	case *said.Class < 0 || *said.Class >= n:
		return v, refuse("%s: class %d of %d", s.options.ClassifyTool, *said.Class, n)
	case !isProbability(*said.Confidence):
		return v, refuse("%s: confidence %v is not from 0 to 1", s.options.ClassifyTool, *said.Confidence)
	case len(said.Model) > maxName:
		return v, refuse("%s: the model's name is too long", s.options.ClassifyTool)
	}
	v = opinion{Class: *said.Class, Confidence: min(*said.Confidence, 1), Model: said.Model, UseReasoning: said.UseReasoning}
	if v.Probabilities, err = spread(v.Class, v.Confidence, said.Probabilities, n); err != nil {
		return v, fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
	}
	return v, nil
}

func isProbability(x float64) bool { return x >= 0 && x <= 1+rounding }

// spread returns the distribution in which the class has the confidence, or what it
// takes to be the largest, and the other categories share the rest: in proportion to
// what they were said to have, or evenly if nothing was said.
func spread(class int, confidence float64, said []float64, n int) ([]float64, error) {
	p := slices.Repeat([]float64{1}, n)
	if said != nil {
		sum := 0.0
		for _, x := range said {
			if !isProbability(x) {
				return nil, refuse("probability %v is not from 0 to 1", x)
			}
			sum += x
		}
		switch {
		case len(said) != n:
			return nil, refuse("%d probabilities for %d categories", len(said), n)
		case math.Abs(sum-1) > sumTolerance:
			return nil, refuse("the probabilities' sum is %v", sum)
		case said[class] < float64(leastShare*slices.Max(said)):
			return nil, refuse("class %d is not the most probable", class)
		}
		copy(p, said)
	}
	p[class] = 0
	rest := 0.0
	for _, x := range p {
		rest += x
	}
	if rest == 0 { // nothing else may be it
		p[class] = 1
		return p, nil
	}
	lead := margin * slices.Max(p) / rest
	confidence = max(confidence, lead/(1+lead)) // confidence = (1-confidence)*lead
	for i := range p {
		p[i] *= (1 - confidence) / rest
	}
	p[class] = confidence
	return p, nil
}

// ask calls a tool, again if it can't be reached, within the time of one
// classification, and decodes the JSON of its text into answer.
func (s *outside) ask(ctx context.Context, tool string, arguments, answer any) error {
	late := fmt.Errorf("no answer within %s", s.options.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, late)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = 50 * time.Millisecond
	raw, err := backoff.Retry(ctx, func() (json.RawMessage, error) {
		raw, err := s.caller.call(ctx, tool, arguments)
		if _, answered := errors.AsType[*refusal](err); answered {
			return nil, backoff.Permanent(err)
		}
		return raw, err
	}, backoff.WithMaxTries(uint(s.options.MaxRetries)+1), backoff.WithBackOff(pauses),
		backoff.WithNotify(func(error, time.Duration) { s.doubt() })) // it may come back with another list
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return decode(raw, answer)
}

// decode reads the JSON that is in the text of a CallToolResult.
func decode(raw json.RawMessage, answer any) error {
	var result struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return refuse("the answer is no tool result: %v", err)
	}
	for _, c := range result.Content {
		if c.Type != "text" {
			continue
		}
		if result.IsError {
			return refuse("it says: %.200s", c.Text)
		}
		var failed struct {
			Error string `json:"error"`
		}
		if json.Unmarshal([]byte(c.Text), &failed) == nil && failed.Error != "" {
			return refuse("it says: %.200s", failed.Error)
		}
		if err := json.Unmarshal([]byte(c.Text), answer); err != nil {
			return refuse("the text of the answer is not the JSON that was expected: %v", err)
		}
		return nil
	}
	return refuse("the answer has no text")
}

// An entry is an outside server that the router runs.
type entry struct {
	server, list string // its name, and the tool that lists categories
	servers      Sessions

	mu    sync.Mutex      // guards heard
	heard session.Session // which last said its list
}

// errAnew says that what the server answers may be about another list.
var errAnew = errors.New("it was started anew, and not yet asked for its list")

func (e *entry) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	s, err := e.servers.Session(ctx, e.server, nil)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if tool == e.list {
		e.heard = s
	}
	anew := e.heard != s
	e.mu.Unlock()
	if anew {
		return nil, backoff.Permanent(errAnew)
	}
	params, err := callParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	raw, err := s.Call(ctx, session.Request{Method: "tools/call", Params: params})
	if said, ok := errors.AsType[*session.Error](err); ok {
		return nil, refuse("%v", said)
	}
	return raw, err
}

func (*entry) close() {}

func callParams(tool string, arguments any) (json.RawMessage, error) {
	return json.Marshal(struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	}{tool, arguments})
}
