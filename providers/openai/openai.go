// Package openai makes a provider of the language models of an AI service that speaks
// OpenAI's chat API: OpenAI itself, most other services, and local ones (vLLM, Ollama,
// llama.cpp). It uses OpenAI's client, which only programs that import this package contain.
//
//	models, err := openai.New("ai", openai.Options{BaseURL: "http://localhost:11434/v1"})
//	…
//	all, err := mux.New("all", router, models)
//
// Each model is a tool "provider:model". It takes a prompt, or messages, and answers with a
// text; [WithDeltas] shows the text as it comes. A result's structuredContent has the text,
// the model, finish_reason, the usage of tokens, and reasoning if the model shows it.
//
// A call is made again if the service cannot be reached, is too busy (429) or fails (5xx
// except 501), after the time in Retry-After or a pause that grows. Once a part of the answer
// was passed on, the call is not made again. If the service says that the request is wrong,
// the result is a tool error with its status, type and message.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	api "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Options say where an AI service is and how it is called. The zero value is OpenAI, with
// the key in OPENAI_API_KEY.
type Options struct {
	BaseURL string // before /chat/completions and /models; default "https://api.openai.com/v1"

	// KeyVariable names the environment variable with the key; default
	// "OPENAI_API_KEY". It is read at each request. The key is sent only to the origin
	// of BaseURL and never logged. If the variable is empty, no key is sent.
	KeyVariable string

	Models []Model // the models to offer; if empty, the service is asked for its models, every Refresh

	// Overrides replace, by ID, the description and the capabilities of models that the
	// service lists.
	Overrides map[string]Model

	Refresh time.Duration // default 10m, sooner after a failure; below 0 only Health asks

	// These may not be below 0.
	Timeout  time.Duration // of a call with all its attempts; default 2m
	MaxTries int           // attempts of a call; default 4
	MaxWait  time.Duration // the longest pause between two attempts; default 30s
	MaxBody  int           // bytes of an answer; default 8 MiB

	MaxConcurrent int // calls at a time, others wait; default 8, below 0 any number

	NoStream bool // ask for the whole answer at once, instead of a stream of its parts (see [WithDeltas])

	Transport http.RoundTripper // default: a new one, which checks certificates and uses the proxy of the environment
	Log       *zap.Logger       // default: no log
}

// A Model is a language model of an AI service.
type Model struct {
	ID           string   // the service's name for it, such as "gpt-5-mini"
	Description  string   // its strengths, in a sentence or two; default: a sentence for each capability
	Capabilities []string // in addition to chat and ai; nil means the capabilities that the name suggests: reasoning, code, vision
}

type provider struct {
	*inprocess.Store
	registry *registry.Registry
	server   *inprocess.Server
	options  Options
	base     *url.URL
	http     *http.Client
	client   api.Client // sends the requests, with http
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// New returns a provider of the models of an AI service. The name is the first half of the IDs of
// its tools. Unless Options has Models, they are listed in the background, and at once by Health. A
// service that is down is not an error: Health says so. The provider must be closed.
//
// Models without a Description are much alike to the ranking, so that it is never sure:
// list in Options the models that you want with their strengths, or ask for a capability.
func New(name string, o Options) (adapter.ProviderAdapter, error) {
	o, base, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("AI service %q: %w", name, err)
	}
	o.Log = o.Log.Named("openai").With(zap.String("provider", name))
	p := &provider{registry: registry.New(), options: o, base: base, stop: func() {}}
	p.http = &http.Client{Transport: o.Transport, CheckRedirect: p.redirect}
	p.client = newClient(base, p.http)
	p.server = inprocess.NewServer(inprocess.Options{
		Info:   session.Info{Name: name, Remote: true},
		Policy: execute.Policy{MaxConcurrent: o.MaxConcurrent, Retry: execute.NeverRetry},
		Log:    o.Log, Run: p.run,
	})
	p.Store = inprocess.NewStore(name, p.registry, p.server, selector.Options{Log: o.Log}, nil)
	if len(o.Models) > 0 {
		if err := p.offer(o.Models); err != nil {
			return nil, errors.Join(fmt.Errorf("AI service %q: %w", name, err), p.Close())
		}
	} else if o.Refresh > 0 {
		ctx, stop := context.WithCancel(context.Background())
		p.stop = stop
		p.running.Go(func() { p.follow(ctx) })
	}
	return p, nil
}

// newClient returns OpenAI's client for the base URL. It does not read the environment, where the
// key belongs to another origin.
func newClient(base *url.URL, client *http.Client) api.Client {
	plain := *base
	plain.RawQuery = ""
	options := []option.RequestOption{option.WithBaseURL(plain.String()), option.WithHTTPClient(client)}
	for key, values := range base.Query() { // Azure's api-version
		for _, value := range values {
			options = append(options, option.WithQueryAdd(key, value))
		}
	}
	return api.Client{Options: options}
}

// complete returns the options with defaults, and the base URL.
func (o Options) complete() (Options, *url.URL, error) {
	o.BaseURL = cmp.Or(o.BaseURL, "https://api.openai.com/v1")
	o.KeyVariable = cmp.Or(o.KeyVariable, "OPENAI_API_KEY")
	o.Refresh = cmp.Or(o.Refresh, 10*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.MaxTries = cmp.Or(o.MaxTries, 4)
	o.MaxWait = cmp.Or(o.MaxWait, 30*time.Second)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 8)
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 10,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		}
	}
	base, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	switch {
	case err != nil:
		return o, nil, errors.New("the base URL is not valid") // err shows it
	case base.Scheme != "https" && base.Scheme != "http" || base.Host == "":
		return o, nil, errors.New("the base URL must begin with http:// or https://")
	case base.User != nil:
		return o, nil, errors.New("a password in the base URL could be logged; set KeyVariable to the name of an environment variable with the key")
	case min(o.Timeout, o.MaxWait) < 0 || min(o.MaxTries, o.MaxBody) < 0:
		return o, nil, errors.New("none of Timeout, MaxTries, MaxWait and MaxBody may be below 0")
	}
	return o, base, nil
}

// Health lists the service's models to see whether it answers.
func (p *provider) Health(ctx context.Context) adapter.Health {
	h := adapter.Health{Name: p.Name(), State: adapter.Up}
	err := inprocess.ErrClosed
	if !p.server.Closed() {
		err = p.refresh(ctx)
	}
	if h.Tools = len(p.Tools()); err != nil {
		h.State, h.Reason = adapter.Down, err.Error()
	}
	return h
}

// Close ends the calls, and returns when nothing of the provider is left.
func (p *provider) Close() error {
	p.stop()
	p.server.Close()
	p.running.Wait()
	p.http.CloseIdleConnections()
	return p.Store.Close()
}
