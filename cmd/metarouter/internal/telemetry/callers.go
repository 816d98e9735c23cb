package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	// maxClients bounds the names of clients that have series. Clients name themselves: calls
	// of further ones are counted for the client "other".
	maxClients = 100

	// maxCallers bounds the callers that have series. Calls of further ones are counted for
	// the caller whose client, principal and profile are "other".
	maxCallers = 500
)

// A caller is who calls, with the names of an [selector.Execution].
type caller struct{ client, principal, profile string }

// others are all callers without series of their own.
var others = caller{other, other, other}

// callers counts the calls of each caller, and the tokens of their results and of the definitions
// of tools that it listed.
type callers struct {
	calls, tokens, definitions *prometheus.CounterVec // by client, principal, profile

	known   atomic.Pointer[map[caller]*callerSeries] // replaced, not edited
	mu      sync.Mutex                               // held while known is replaced; guards clients
	clients map[string]bool                          // those with series
}

// callerSeries are the counters of a caller. They are kept so that counting a call allocates
// nothing.
type callerSeries struct{ calls, tokens, definitions prometheus.Counter }

// newCallers returns counters that counter makes.
func newCallers(counter func(name, help string, labels ...string) *prometheus.CounterVec) *callers {
	c := &callers{
		calls:       counter("client_calls_total", "Finished tool calls, by caller.", "client", "principal", "profile"),
		tokens:      counter("client_result_tokens_total", "Tokens of the results of tool calls before they were cut, estimated as 4 bytes each, by caller.", "client", "principal", "profile"),
		definitions: counter("client_definition_tokens_total", "Tokens of the lists of tools that clients got, estimated as 4 bytes each, by client.", "client", "principal", "profile"),
		clients:     make(map[string]bool),
	}
	c.known.Store(&map[caller]*callerSeries{})
	return c
}

// count counts a call.
func (c *callers) count(e selector.Execution) {
	s := c.of(caller{e.Client, e.Principal, e.Profile})
	s.calls.Inc()
	s.tokens.Add(float64(len(e.Result) / registry.BytesPerToken))
}

// of returns the series of a caller, or those that stand for it.
func (c *callers) of(who caller) *callerSeries {
	who.client = who.client[:min(len(who.client), maxValue)]
	if s := (*c.known.Load())[who]; s != nil {
		return s
	}
	return c.learn(who)
}

// learn makes the series of a caller, or returns those that stand for it.
func (c *callers) learn(who caller) *callerSeries {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *c.known.Load()
	if len(c.clients) >= maxClients && !c.clients[who.client] {
		who.client = other
	}
	if known[who] == nil && len(known) >= maxCallers {
		who = others
	}
	if s := known[who]; s != nil {
		return s
	}
	if who.client != other {
		c.clients[who.client] = true
	}
	client, principal, profile := value(who.client), value(who.principal), value(who.profile)
	s := &callerSeries{
		c.calls.WithLabelValues(client, principal, profile), c.tokens.WithLabelValues(client, principal, profile),
		c.definitions.WithLabelValues(client, principal, profile),
	}
	next := maps.Clone(known)
	next[who] = s
	c.known.Store(&next)
	return s
}
