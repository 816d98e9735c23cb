package execute

import (
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// maxRepairs bounds the kinds of repairs of a server that are counted apart.
const maxRepairs = 8

// repairs counts the repairs at one server by kind. The zero value has none.
type repairs struct {
	mu    sync.Mutex // guards kinds
	kinds []status.Repair
}

// Repairs returns how often results of the server, and arguments for its tools, were repaired.
func (e *Executor) Repairs(server string) []status.Repair {
	found, ok := e.repairs.Load(server)
	if !ok {
		return nil
	}
	r := found.(*repairs)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kinds)
}

// countRepairs counts what was done to one result, or to one call's arguments; "" if nothing was.
func (e *Executor) countRepairs(server, of, what string) {
	if what == "" {
		return
	}
	found, ok := e.repairs.Load(server)
	if !ok {
		found, _ = e.repairs.LoadOrStore(server, new(repairs))
	}
	for _, kind := range kindsOf(what) {
		if found.(*repairs).count(status.Repair{Of: of, What: kind, Times: 1}) && of == "results" { // arguments are the models'
			e.Log.Warn("repaired "+of, zap.String("server", server), zap.String("repair", kind))
		}
	}
}

// count counts a repair, and reports whether it is the first one of its kind.
func (r *repairs) count(one status.Repair) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range 2 {
		i := slices.IndexFunc(r.kinds, func(k status.Repair) bool { return k.Of == one.Of && k.What == one.What })
		if i >= 0 {
			r.kinds[i].Times++
			return false
		}
		if len(r.kinds) < maxRepairs {
			break
		}
		one.What = "other repairs"
	}
	r.kinds = append(r.kinds, one)
	return true
}

// position, quoted and places match the parts of a repair that differ from call to call.
var (
	position = lazy.Regexp(`\[\d+\]`)
	quoted   = lazy.Regexp(`"(?:\\.|[^"\\])*"`)
	places   = lazy.Regexp(`(became values|was left out): [^;]*`)
)

// kindsOf returns the kinds of the repairs that a sentence names, each once.
func kindsOf(what string) (kinds []string) {
	what = quoted().ReplaceAllString(position().ReplaceAllString(what, ""), "…")
	for kind := range strings.SplitSeq(places().ReplaceAllString(what, "$1"), "; ") {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
