package adapter

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/selector"
)

// assistance holds the client of the model that the configuration names.
type assistance struct {
	current *holder
	log     *zap.Logger

	mu     sync.Mutex // guards what follows
	in     config.Endpoint
	client *endpoint.Client // of the endpoint in; nil without
}

// assistant returns the model of the configuration in use, or nil if it names none.
func (a *assistance) assistant() selector.Assistant {
	var wanted config.Endpoint
	if c := a.current.load().config.Router.Assist; c != nil {
		wanted = c.Endpoint
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !reflect.DeepEqual(wanted, a.in) {
		a.replace(wanted)
	}
	if a.client == nil {
		return nil
	}
	return assistant{a.client, a.log}
}

// replace makes the client that of the endpoint. a.mu must be held.
func (a *assistance) replace(wanted config.Endpoint) {
	if a.client != nil {
		a.client.Close()
	}
	a.in, a.client = wanted, nil
	if wanted.URL == "" {
		return
	}
	client, err := endpoint.New(wanted.URL, wanted.Model, wanted.Headers)
	if err != nil {
		a.log.Warn("the model of \"assist\" can't be asked", zap.Error(err))
		return
	}
	a.client = client
}

// close closes connections that are not in use.
func (a *assistance) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replace(config.Endpoint{})
}

// An assistant logs why the model did not choose.
type assistant struct {
	client *endpoint.Client
	log    *zap.Logger
}

// Choose implements [selector.Assistant].
func (a assistant) Choose(ctx context.Context, task string, choices []string) (int, error) {
	i, err := a.client.Choose(ctx, task, choices)
	if err != nil && !errors.Is(err, endpoint.ErrPaused) && !errors.Is(err, endpoint.ErrBusy) && !errors.Is(ctx.Err(), context.Canceled) {
		a.log.Warn("the model of \"assist\" did not choose a tool; the search goes on without it", zap.Error(err))
	}
	return i, err
}
