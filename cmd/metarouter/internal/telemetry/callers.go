package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/mcp-metarouter/metarouter/internal/tokencount"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	// maxClients bounds the names of clients that have series. Clients name themselves: calls
	// of further ones are counted for the client "other".
	maxClients = 100

	// maxCallers bounds the callers that have series. Calls of further ones are counted for
	// the caller with the name "other" in each field.
	maxCallers = 1000
)

// A caller is who calls tools of a server, with the names of an [selector.Execution]. The server is
// "" for the router's own tools and for lists of tools.
type caller struct{ server, client, principal, profile string }

// others are all callers without series of their own.
var others = caller{other, other, other, other}

// callers counts the calls of each caller, and the tokens of their results and of the definitions
// of tools that it listed.
type callers struct {
	calls, tokens *prometheus.CounterVec // by server, client, principal, profile
	definitions   *prometheus.CounterVec // by client, principal, profile

	mu      sync.Mutex // guards the fields below
	known   map[caller]callerSeries
	clients map[string]bool // with series
}

// callerSeries are the counters of a caller. definitions is nil for the caller of a server's tools.
type callerSeries struct{ calls, tokens, definitions prometheus.Counter }

func newCallers(counter func(name, help string, labels ...string) *prometheus.CounterVec) *callers {
	return &callers{
		calls:       counter("client_calls_total", "Finished tool calls, by caller and the server that answered.", "server", "client", "principal", "profile"),
		tokens:      counter("client_result_tokens_total", "Tokens of the results of tool calls before they were cut, estimated as 4 bytes each, by caller and the server that answered.", "server", "client", "principal", "profile"),
		definitions: counter("client_definition_tokens_total", "Tokens of the lists of tools that clients got, estimated as 4 bytes each, by client.", "client", "principal", "profile"),
		known:       make(map[caller]callerSeries), clients: make(map[string]bool),
	}
}

func (c *callers) count(e selector.Execution) {
	s := c.of(caller{cmp.Or(e.Answered, e.Tool).Server, e.Client, e.Principal, e.Profile})
	s.calls.Inc()
	s.tokens.Add(float64(len(e.Result) / tokencount.Bytes))
}

func (c *callers) listed(client, principal, profile string, tokens int) {
	c.of(caller{"", client, principal, profile}).definitions.Add(float64(tokens))
}

// of returns the series of a caller, or the series "other".
func (c *callers) of(who caller) callerSeries {
	c.mu.Lock()
	defer c.mu.Unlock()
	who.client = who.client[:min(len(who.client), maxValue)]
	if len(c.clients) >= maxClients && !c.clients[who.client] {
		who.client = other
	}
	if _, ok := c.known[who]; !ok && len(c.known) >= maxCallers {
		who = others
	}
	if s, ok := c.known[who]; ok {
		return s
	}
	if who.client != other {
		c.clients[who.client] = true
	}
	server, client, principal, profile := value(cmp.Or(who.server, ownServer)), value(who.client), value(who.principal), value(who.profile)
	s := callerSeries{
		calls:  c.calls.WithLabelValues(server, client, principal, profile),
		tokens: c.tokens.WithLabelValues(server, client, principal, profile),
	}
	if who.server == "" || who == others {
		s.definitions = c.definitions.WithLabelValues(client, principal, profile)
	}
	c.known[who] = s
	return s
}

func (c *callers) forget(present map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(who caller, _ callerSeries) bool {
		gone := who.server != "" && who != others && !present[who.server]
		if gone {
			at := prometheus.Labels{"server": value(who.server)}
			c.calls.DeletePartialMatch(at)
			c.tokens.DeletePartialMatch(at)
		}
		return gone
	})
}

// A Cost is the cost of a server's tools for a client with a profile, since the router's start.
type Cost struct {
	Server      string `json:"server"`      // that answered; "" for lists of tools, and for the router's own tools
	Client      string `json:"client"`      // "" if it gives itself no name
	Profile     string `json:"profile"`     // "" without a profile
	Calls       int64  `json:"calls"`       // that have ended
	Results     int64  `json:"results"`     // tokens, before they were cut
	Definitions int64  `json:"definitions"` // tokens of lists of tools
}

// costs returns the costs by server, client and profile.
func (c *callers) costs() []Cost {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := make(map[caller]Cost) // without principals
	for who, s := range c.known {
		who.principal = ""
		sum := sums[who]
		sum.Calls += total(s.calls)
		sum.Results += total(s.tokens)
		if s.definitions != nil {
			sum.Definitions += total(s.definitions)
		}
		sums[who] = sum
	}
	all := make([]Cost, 0, len(sums))
	for who, sum := range sums {
		sum.Server, sum.Client, sum.Profile = who.server, value(who.client), who.profile
		all = append(all, sum)
	}
	slices.SortFunc(all, func(a, b Cost) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Profile, b.Profile))
	})
	return all
}

// total returns the value of a counter, which fails only for one that is no metric.
func total(of prometheus.Counter) int64 {
	var m dto.Metric
	if of.Write(&m) != nil {
		return 0
	}
	return int64(m.GetCounter().GetValue())
}
