package classify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
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
	// maxRefusals is how many answers in a row may be of no use before the server is
	// taken to be down: one may be the text's fault.
	maxRefusals = 3

	// probeText is what a server that was down must be able to classify.
	probeText = "How many sides has a triangle?"

	firstProbe, lastProbe = 500 * time.Millisecond, 30 * time.Second

	// settled is how long a server must have been up to be probed at once when it is
	// down again.
	settled = 10 * time.Second

	// Bounds of what a server may say.
	maxCategories = 1000
	maxNameBytes  = 200
)

// Tolerances of the protocol: of the sum of probabilities, and by how much the
// class may be less probable than another one.
const (
	sumTolerance = 0.05
	leastShare   = 0.9
)

// An outside is a classification server of somebody else's.
type outside struct {
	options config.Outside
	caller  caller
	log     *zap.Logger
	tried   chan struct{} // closed when it was first asked for its list
	fell    chan struct{} // holds a signal when it went down

	mu       sync.Mutex // guards what follows
	list     []string   // its categories; nil until it was heard
	index    []int      // ours of each of them
	err      error      // why it is down; nil if it is up
	since    time.Time
	refusals int           // in a row
	flipped  chan struct{} // closed when it goes down or comes up, then itself replaced
}

var errNotTried = errors.New("it was not asked yet")

func newOutside(o config.Outside, servers Sessions, log *zap.Logger) *outside {
	s := &outside{options: o, log: log, tried: make(chan struct{}), fell: make(chan struct{}, 1), flipped: make(chan struct{}), err: errNotTried, since: time.Now()}
	if o.Server != "" {
		s.caller = entry{o.Server, servers}
	} else {
		s.caller = newWeb(o.URL, o.Headers)
	}
	return s
}

func (s *outside) close() { s.caller.close() }

// run asks for the list at first and every so often, and looks after the server
// while it is down, until ctx ends. learn is given each list.
func (s *outside) run(ctx context.Context, learn func(List) []int) error {
	probes := backoff.NewExponentialBackOff()
	probes.InitialInterval, probes.MaxInterval = firstProbe, lastProbe
	for first := true; ; first = false {
		err := s.refresh(ctx, learn)
		if err == nil && !s.up() {
			err = s.probe(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		s.note(err)
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
		case <-s.fell:
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
		case <-s.fell: // what it tells is known
		default:
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// await returns when the server was first tried, or ctx ends.
func (s *outside) await(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	select {
	case <-s.tried:
	case <-limited.Done():
	}
}

func (s *outside) heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list != nil
}

func (s *outside) up() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil
}

// note says what came of asking the server: nil, or why it is down.
func (s *outside) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.err
	if s.refusals++; err == nil {
		s.refusals = 0
	}
	if _, answered := errors.AsType[*refusal](err); answered && was == nil && s.refusals < maxRefusals {
		s.log.Debug("the outside classifier's answer is not used", zap.Error(err))
		return
	}
	s.err = err
	if (was == nil) != (err == nil) {
		s.since = time.Now()
		close(s.flipped)
		s.flipped = make(chan struct{})
	}
	switch {
	case was != nil && err == nil:
		s.log.Info("the outside classifier is up", zap.String("address", s.address()))
	case (was == nil || was == errNotTried) && err != nil:
		s.log.Warn("the outside classifier is down; the built-in one serves", zap.String("address", s.address()), zap.Error(err))
	}
	if was == nil && err != nil {
		select {
		case s.fell <- struct{}{}:
		default:
		}
	}
}

func (s *outside) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flipped
}

func (s *outside) address() string { return cmp.Or(s.options.Server, s.options.URL) }

func (s *outside) health() *OutsideHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &OutsideHealth{Address: s.address(), State: "up", Since: s.since.UTC(), Source: Outside}
	if s.err != nil {
		h.State, h.Error, h.Source = "down", s.err.Error(), Builtin
	}
	if s.err == errNotTried {
		h.State, h.Error = "starting", ""
	}
	return h
}

// refresh asks for the list.
func (s *outside) refresh(ctx context.Context, learn func(List) []int) error {
	var list List
	if err := s.ask(ctx, s.options.ListTool, struct{}{}, &list); err != nil {
		return fmt.Errorf("%s: %w", s.options.ListTool, err)
	}
	if err := s.checkList(list); err != nil {
		return fmt.Errorf("%s: %w", s.options.ListTool, err)
	}
	index := learn(list)
	s.mu.Lock()
	defer s.mu.Unlock()
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
		if name == "" || len(name) > maxNameBytes || seen[name] {
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

// probe finds out whether a server that was down can classify again.
func (s *outside) probe(ctx context.Context) error {
	s.mu.Lock()
	n := len(s.list)
	s.mu.Unlock()
	_, err := s.decide(ctx, probeText, n)
	return err
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
	if err == nil || ctx.Err() == nil { // else the client has left, which says nothing about the server
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
	}
	arguments := struct {
		Text              string `json:"text"`
		WithProbabilities bool   `json:"with_probabilities"`
	}{text, true}
	if err := s.ask(ctx, s.options.ClassifyTool, arguments, &said); err != nil {
		return v, fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
	}
	switch {
	case said.Class == nil || said.Confidence == nil:
		return v, refuse("%s: the answer lacks a class or a confidence", s.options.ClassifyTool)
	case *said.Class < 0 || *said.Class >= n:
		return v, refuse("%s: class %d of %d", s.options.ClassifyTool, *said.Class, n)
	case !(*said.Confidence >= 0 && *said.Confidence <= 1):
		return v, refuse("%s: confidence %v is not from 0 to 1", s.options.ClassifyTool, *said.Confidence)
	case len(said.Model) > maxNameBytes:
		return v, refuse("%s: the model's name is too long", s.options.ClassifyTool)
	}
	v = opinion{Class: *said.Class, Confidence: *said.Confidence, Model: said.Model, UseReasoning: said.UseReasoning}
	if v.Probabilities, err = spread(v.Class, v.Confidence, said.Probabilities, n); err != nil {
		return v, fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
	}
	return v, nil
}

// spread returns the distribution in which the class has the confidence, and the
// other categories share the rest: in proportion to what they were said to have, or
// evenly if nothing was said.
func spread(class int, confidence float64, said []float64, n int) ([]float64, error) {
	p := make([]float64, n)
	if said == nil {
		for i := range p {
			p[i] = 1
		}
	} else {
		sum := 0.0
		for _, x := range said {
			if !(x >= 0 && x <= 1) {
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
	rest := 0.0
	for i, x := range p {
		if i != class {
			rest += x
		}
	}
	for i := range p {
		switch {
		case i == class && rest > 0:
			p[i] = confidence
		case i == class: // nothing else may be it
			p[i] = 1
		case rest > 0:
			p[i] *= (1 - confidence) / rest
		}
	}
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
	}, backoff.WithMaxTries(uint(s.options.MaxRetries)+1), backoff.WithBackOff(pauses))
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
	server  string
	servers Sessions
}

func (e entry) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	s, err := e.servers.Session(ctx, e.server, nil)
	if err != nil {
		return nil, err
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

func (entry) close() {}

func callParams(tool string, arguments any) (json.RawMessage, error) {
	return json.Marshal(struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	}{tool, arguments})
}
