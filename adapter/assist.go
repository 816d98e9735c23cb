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

	mu     sync.Mutex       // guards the fields below
	in     config.Endpoint  // in use
	client *endpoint.Client // of in; nil if in is empty
}

// assistant returns the model that the configuration names, or nil.
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

// replace replaces the client by one of the endpoint. a.mu must be held.
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

// close closes idle connections.
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
