// Package cli is the commands that ask a router: each calls the admin API, and prints the answer as
// text or JSON. The router is the running one with the same configuration, or else one in this
// process, for that command alone, which starts only the servers that are needed.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
)

// An Env has the flags, the streams and the router of the commands.
type Env struct {
	*console.Console
	*service.Runner        // makes the routers of this process
	Program         string // identifies this build, as [daemon.Program] does

	Standalone bool // --standalone: ask no running router
}

// A need says which router a command needs. The zero value is the newest one that runs, or else one
// of this process.
type need struct {
	all      bool // ask every router that runs; the last answer counts
	peek     bool // a running router is asked even if the configuration is not trusted
	observed bool // a router of this process records calls in the access log and in traces
	quiet    bool // a router of this process notes no problems of its configuration
	secrets  bool // a router of this process reads the secrets to which "http" refers
	asClient bool // without --profile, requests are for the view of clients without a profile, and not for everything

	// alone is called before a router of this process is opened, and may change its configuration.
	alone func(*config.Config) error
}

// ask runs do with a client of the router. While an edit waits for approval or the files have a
// mistake in their syntax, a running router has the text before that.
func (e *Env) ask(ctx context.Context, n need, do func(context.Context, *apiClient) error) error {
	c, named, err := e.Files.Locate()
	if _, mistake := errors.AsType[config.Problem](err); err != nil && !mistake {
		return err
	}
	unusable := sync.OnceValue(func() error {
		if err == nil && !named {
			c, err = e.Files.RequireTrust(ctx, c)
		}
		return err
	})
	if !n.peek && unusable() == console.Interrupted {
		return console.Interrupted
	}
	client := &apiClient{Env: e, asClient: n.asClient, routers: e.running(ctx, c)}
	if len(client.routers) == 0 {
		if err := unusable(); err != nil {
			return err
		}
		if n.alone != nil {
			if err := n.alone(&c); err != nil {
				return err
			}
		}
	} else if !n.all {
		client.routers = client.routers[:1]
	}
	client.config = c
	if len(client.routers) > 0 {
		return do(ctx, client)
	}
	local := *e.Runner
	local.Quiet, local.Observed, local.Secrets = n.quiet, n.observed, n.secrets
	return local.Run(ctx, c, func(ctx context.Context, r *adapter.Router) error {
		mux := http.NewServeMux()
		admin.New(c, admin.Options{Version: e.Version, DataDir: e.Files.Data}).Register(mux, r, nil)
		client.alone, client.routers = r, []http.RoundTripper{inProcess{admin.ForCommands(mux)}}
		return do(ctx, client)
	})
}

func (e *Env) running(ctx context.Context, c config.Config) []http.RoundTripper {
	if e.Standalone {
		return nil
	}
	return daemon.Routers(ctx, daemon.SocketsOf(e.Files.Data, c.Files), e.Program)
}

type inProcess struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(q *http.Request) (*http.Response, error) {
	w := &recorder{code: http.StatusOK, header: make(http.Header)}
	p.ServeHTTP(w, q)
	return &http.Response{StatusCode: w.code, Header: w.header, Body: io.NopCloser(&w.Buffer), Request: q}, nil
}

// A recorder is an [http.ResponseWriter] that keeps the answer.
type recorder struct {
	bytes.Buffer
	code   int
	header http.Header
}

func (w *recorder) Header() http.Header  { return w.header }
func (w *recorder) WriteHeader(code int) { w.code = code }

type apiClient struct {
	*Env
	config   config.Config
	asClient bool
	watching bool
	routers  []http.RoundTripper // that get each request; the last answer counts
	alone    *adapter.Router     // the router of this process; nil for one that runs
	noted    []string            // notes that were printed
}

// send sends a request, shows on a terminal that it takes long, and prints the notes of the answer,
// each once. in is the body; nil asks with GET.
func (c *apiClient) send(ctx context.Context, path string, in, answer any) (err error) {
	var notes []string
	work := func() {
		for _, router := range c.routers {
			notes, err = c.exchange(ctx, router, path, in, answer)
		}
	}
	if c.alone != nil {
		service.ShowServers(c.Console, c.alone, work)
	} else {
		began := time.Now()
		c.Progress(work, func(now time.Time) string { return "asking the running router, " + console.Elapsed(now.Sub(began)) })
	}
	if ctx.Err() != nil {
		return console.Interrupted
	}
	for _, note := range notes {
		if !slices.Contains(c.noted, note) {
			c.noted = append(c.noted, note)
			c.Note("%s", note)
		}
	}
	return err
}

func (c *apiClient) exchange(ctx context.Context, router http.RoundTripper, path string, in, answer any) (notes []string, err error) {
	parameters := url.Values{}
	if profile := c.Files.Profile; profile != nil && *profile != "" {
		parameters.Set("profile", *profile)
	} else if profile == nil && c.asClient {
		parameters.Set("profile", "")
	}
	if len(c.Files.Paths) > 0 {
		parameters.Set("named", "1")
	}
	if c.watching {
		parameters.Set("watch", "1")
	}
	method, body := http.MethodGet, io.Reader(nil)
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		method, body = http.MethodPost, bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://router"+path+"?"+parameters.Encode(), body)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := router.RoundTrip(q)
	var text []byte
	if err == nil {
		defer r.Body.Close()
		text, err = io.ReadAll(r.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the running router: %w", err)
	}
	var envelope struct {
		admin.Refusal
		Notes []string `json:"notes"`
	}
	if json.Unmarshal(text, &envelope) != nil {
		return nil, fmt.Errorf("the running router answers %d %s", r.StatusCode, strings.TrimSpace(string(text)))
	}
	switch r.StatusCode {
	case http.StatusOK:
		return envelope.Notes, json.Unmarshal(text, answer)
	case http.StatusBadRequest, http.StatusNotFound:
		return envelope.Notes, console.Usage(errors.New(envelope.Error))
	}
	return envelope.Notes, errors.New(envelope.Error)
}

// showCall is show for a request that calls tools. asks returns what a profile asks the person about the answer,
// "" for nothing, and what a yes changes in the request, which is sent again then.
func showCall[Answer any](ctx context.Context, e *Env, path string, in any, asks func(Answer) (question string, yes func()), print func(Answer) error) error {
	return e.ask(ctx, need{observed: true, asClient: true}, func(ctx context.Context, c *apiClient) error {
		for {
			var answer Answer
			if err := c.send(ctx, path, in, &answer); err != nil {
				return err
			}
			question, yes := asks(answer)
			if question == "" || !e.CanAsk() {
				return print(answer)
			}
			switch agreed, err := e.Confirm(ctx, question+" [y/N]"); {
			case err != nil:
				return console.Interrupted
			case !agreed:
				return print(answer)
			}
			yes()
		}
	})
}

// show sends a request for path to the router, and calls print with the answer.
func show[Answer any](ctx context.Context, e *Env, n need, path string, in any, print func(Answer) error) error {
	return e.ask(ctx, n, func(ctx context.Context, c *apiClient) error {
		var answer Answer
		if err := c.send(ctx, path, in, &answer); err != nil {
			return err
		}
		return print(answer)
	})
}
