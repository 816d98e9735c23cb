package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// ChatOptions say where an AI provider is, and how it is called. The zero value is
// OpenAI, with the key in OPENAI_API_KEY.
type ChatOptions struct {
	// BaseURL is what comes before /chat/completions and /models; default
	// "https://api.openai.com/v1".
	BaseURL string

	// KeyVariable names the environment variable that holds the key; default
	// "OPENAI_API_KEY". It is read at each request, sent to the origin of BaseURL and
	// to nobody else, and never logged. Without a value no key is sent, as suits
	// endpoints of one's own.
	KeyVariable string

	// Models are those that are offered. If there are none, the endpoint is asked
	// which it has, every Refresh.
	Models []Model

	// Overrides are what to say of models that the endpoint lists, by ID, instead of
	// what their names tell.
	Overrides map[string]Model

	Refresh time.Duration // default 10m, after a failure sooner; less than 0 leaves it to Chat.Refresh

	// None of these may be less than 0.
	Timeout  time.Duration // of a call with all its tries; default 2m
	MaxTries int           // of a call, the first included; default 4
	MaxWait  time.Duration // the longest pause between two that is waited for; default 30s
	MaxBody  int           // bytes of an answer; default 8 MiB

	MaxConcurrent int // calls under way at once, beyond which others wait; default 8, less than 0 is any number

	// NoStream asks for each answer at once. A stream tells the caller of every few
	// words (see [WithDeltas]).
	NoStream bool

	Transport http.RoundTripper // nil is one of its own, which checks certificates and uses the proxy of the environment
	Log       *zap.Logger       // nil is silence
}

// A Model is one of an AI provider.
type Model struct {
	ID           string   // as the provider has it, such as "gpt-5-mini"
	Description  string   // what it is good for, in a sentence or two; "" is what its capabilities say
	Capabilities []string // beside chat and ai; nil are those that its name speaks for: reasoning, code, vision
}

// Chat is an AI provider that speaks the chat API of OpenAI: OpenAI itself, and most
// others and local ones (vLLM, Ollama, llama.cpp). Each model is a tool
// "provider:model", which takes a prompt, or messages, and answers with text.
//
// A call is made again if the endpoint can't be reached, is too busy (429) or fails (5xx
// but 501), after what it says in Retry-After or longer and longer pauses; but not once
// a part of the answer was handed out. What the endpoint says is wrong is a tool error
// with its status, type and message.
//
// To the ranking, models without a Description of their own are much alike, so that
// none of many is far ahead: offer those that are wanted in Models, say what each is
// good for, or ask for a capability.
//
// The text of a result is the answer; its structuredContent has the text, the model,
// finish_reason and the usage of tokens, and reasoning where the model shows it.
type Chat struct {
	shelf
	bench   *bench
	options ChatOptions
	base    *url.URL
	client  *http.Client
	log     *zap.Logger
	stop    context.CancelFunc
	running sync.WaitGroup

	turn chan struct{} // holds a token while the model list is asked for
}

const (
	defaultBaseURL = "https://api.openai.com/v1"
	defaultKey     = "OPENAI_API_KEY"
)

// NewChat returns an AI provider. The name is the first half of the IDs of its tools.
// Unless Models are given, the endpoint is asked for them behind the scenes; to have
// them at once, call [Chat.Refresh]. An endpoint that is down is no error: its
// Health says so.
func NewChat(name string, o ChatOptions) (*Chat, error) {
	o.BaseURL = cmp.Or(o.BaseURL, defaultBaseURL)
	o.KeyVariable = cmp.Or(o.KeyVariable, defaultKey)
	o.Refresh = cmp.Or(o.Refresh, 10*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.MaxTries = cmp.Or(o.MaxTries, 4)
	o.MaxWait = cmp.Or(o.MaxWait, 30*time.Second)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 8)
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	base, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("chat %q: %w", name, withoutURL(err))
	case base.Scheme != "https" && base.Scheme != "http" || base.Host == "":
		return nil, fmt.Errorf("chat %q: its base URL must be one of http or https", name)
	case base.User != nil:
		return nil, fmt.Errorf("chat %q: a base URL with a password in it would be logged by others; name a variable with the key", name)
	case min(o.Timeout, o.MaxWait) < 0 || min(o.MaxTries, o.MaxBody) < 0:
		return nil, fmt.Errorf("chat %q: Timeout, MaxTries, MaxWait and MaxBody can't be less than 0", name)
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 10,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		}
	}
	log := o.Log.Named("chat").With(zap.String("provider", name))
	b := newBench(session.Info{Name: name, Remote: true}, selector.Policy{MaxConcurrent: o.MaxConcurrent, Retry: selector.NeverRetry}, log)
	c := &Chat{
		shelf: newShelf(name, b, log), bench: b, options: o, base: base, log: log, stop: func() {}, turn: make(chan struct{}, 1),
		client: &http.Client{Transport: o.Transport, CheckRedirect: sameOrigin(base)},
	}
	b.work = c.complete
	if len(o.Models) > 0 {
		if _, err := c.offer(o.Models); err != nil {
			return nil, errors.Join(fmt.Errorf("chat %q: %w", name, err), c.Close())
		}
		return c, nil
	}
	if o.Refresh > 0 {
		ctx, stop := context.WithCancel(context.Background())
		c.stop = stop
		c.running.Go(func() { c.follow(ctx) })
	}
	return c, nil
}

// sameOrigin follows redirects within the origin alone, so that nothing meant for it
// gets to another.
func sameOrigin(base *url.URL) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != base.Scheme || r.URL.Host != base.Host:
			return &redirectError{fmt.Sprintf("%s redirects to %s://%s, which is another origin and gets nothing", base.Host, r.URL.Scheme, r.URL.Host)}
		case r.Method != via[0].Method:
			return &redirectError{fmt.Sprintf("%s redirects what was posted to a page", base.Host)}
		case len(via) >= 5:
			return &redirectError{base.Host + " redirects without end"}
		}
		return nil
	}
}

// A redirectError says why a redirect is not followed.
type redirectError struct{ what string }

func (e *redirectError) Error() string { return e.what }

// Health asks the endpoint for its models.
func (c *Chat) Health(ctx context.Context) Health {
	h := Health{Name: c.name, State: Up, Tools: len(c.Tools())}
	if c.bench.life.Err() != nil {
		h.State, h.Reason = Down, "it is closed"
		return h
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, &slowError{"the endpoint", listTimeout})
	defer cancel()
	var err error
	if len(c.options.Models) > 0 {
		_, err = c.list(ctx)
		if refused, ok := errors.AsType[*apiError](err); ok && refused.status == http.StatusNotFound {
			err = nil // it is there, and lists no models
		}
	} else {
		err = c.Refresh(ctx)
		h.Tools = len(c.Tools())
	}
	if err != nil {
		h.State, h.Reason = Down, err.Error()
	}
	return h
}

// Close ends the calls under way, and returns when nothing of the provider is left.
func (c *Chat) Close() error {
	c.stop()
	c.bench.close()
	c.running.Wait()
	c.client.CloseIdleConnections()
	return c.registry.Close()
}

type deltaKey struct{}

// WithDeltas returns a context for Execute, with which f is called with each few words
// of the answer of a [Chat]'s model as they come, one call at a time, in order, before
// Execute returns. What f was given is the beginning of the answer, even where the
// result is then an error. f must not block.
func WithDeltas(ctx context.Context, f func(text string)) context.Context {
	return context.WithValue(ctx, deltaKey{}, f)
}

// tool returns the tool that a model is.
func (c *Chat) tool(m Model) (registry.NormalizedTool, error) {
	if o, ok := c.options.Overrides[m.ID]; ok {
		m.Description, m.Capabilities = cmp.Or(o.Description, m.Description), o.Capabilities
	}
	if m.Capabilities == nil {
		m.Capabilities = traits(m.ID)
	}
	definition := map[string]any{
		"name":         m.ID,
		"title":        "Ask " + m.ID,
		"description":  describe(m),
		"inputSchema":  json.RawMessage(chatInput),
		"outputSchema": json.RawMessage(chatOutput),
		"annotations":  registry.Hints{ReadOnly: new(true), OpenWorld: new(true)},
	}
	return newTool(c.name, nil, definition, append([]string{"ai", "chat"}, m.Capabilities...))
}
