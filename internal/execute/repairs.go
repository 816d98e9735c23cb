package execute

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxRepairs bounds the kinds of repairs of a server that are counted apart.
const maxRepairs = 8

// repairs counts the repairs of results and arguments by server and kind.
type repairs struct {
	log *zap.Logger

	mu       sync.Mutex // guards byServer
	byServer map[string][]status.Repair
}

// Repairs returns how often results of the server, and arguments for its tools, were repaired.
func (e *Executor) Repairs(server string) []status.Repair {
	e.repairs.mu.Lock()
	defer e.repairs.mu.Unlock()
	return slices.Clone(e.repairs.byServer[server])
}

// count counts the repairs, which a sentence names, of one result or of one call's arguments; "" is no repair.
func (r *repairs) count(server, of, sentence string) {
	if sentence == "" {
		return
	}
	for _, kind := range kindsOf(sentence) {
		if kind == schema.Filled {
			continue // not wrong
		}
		if r.countOne(server, status.Repair{Of: of, What: kind, Times: 1}) && of == "results" { // arguments are the models'
			r.log.Warn("repaired "+of, zap.String("server", server), zap.String("repair", kind))
		}
	}
}

// content returns the result of a request that is no call with its content repaired, and says so in _meta.
func (r *repairs) content(server, method string, raw json.RawMessage) json.RawMessage {
	raw, repaired := content.Repair(method, raw)
	r.count(server, "results", repaired)
	if repaired == "" {
		return raw
	}
	return wire.SetMeta(raw, "repaired", wire.AppendString(nil, repaired))
}

// countOne counts a repair, and reports whether it is the first one of its kind.
func (r *repairs) countOne(server string, one status.Repair) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := r.byServer[server]
	for range 2 {
		i := slices.IndexFunc(kinds, func(k status.Repair) bool { return k.Of == one.Of && k.What == one.What })
		if i >= 0 {
			kinds[i].Times++
			return false
		}
		if len(kinds) < maxRepairs {
			break
		}
		one.What = "other repairs"
	}
	if r.byServer == nil {
		r.byServer = make(map[string][]status.Repair)
	}
	r.byServer[server] = append(kinds, one)
	return true
}

// position, quoted and places match the parts of a repair that differ from call to call.
var (
	position = lazy.Regexp(`\[\d+\]`)
	quoted   = lazy.Regexp(`"(?:\\.|[^"\\])*"`)
	places   = lazy.Regexp(`(became values|was left out|were filled in): [^;]*`)
)

// kindsOf returns the kinds of the repairs that a sentence names, each once.
func kindsOf(sentence string) (kinds []string) {
	sentence = quoted().ReplaceAllString(position().ReplaceAllString(sentence, ""), "…")
	for kind := range strings.SplitSeq(places().ReplaceAllString(sentence, "$1"), "; ") {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
