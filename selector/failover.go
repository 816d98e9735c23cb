package selector

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A choice is a tool that may answer a call.
type choice struct {
	tool     *registry.NormalizedTool
	patience time.Duration // for its server to start
}

// shortWait is how long a call waits for a server to start while others could
// answer instead.
const shortWait = time.Second

// choices returns the tool, and then the tools of the same name on the servers
// that may stand in for its own; one that only reads is not replaced by one that
// may do more. Where none of them answers at once, the tool's own server is waited
// for after all.
func (s *Selector) choices(t *registry.NormalizedTool, p Policy) []choice {
	others, reads := p.StandIns, t.Hints.IsReadOnly()
	if reads {
		others = slices.Concat(p.StandIns, p.Twins)
	}
	if len(others) == 0 {
		return []choice{{t, StartWait}}
	}
	all := []choice{{t, shortWait}}
	known := s.registry.Snapshot()
	for _, server := range others {
		for _, other := range known.Server(server) {
			if other.Name != t.Name && other.ServerName() != t.ServerName() {
				continue
			}
			if !reads || other.Hints.IsReadOnly() {
				all = append(all, choice{other, shortWait})
			}
			break
		}
	}
	if len(all) == 1 {
		return []choice{{t, StartWait}}
	}
	return append(all, choice{t, StartWait})
}

// Fit returns the arguments of another tool under the names that t has for them, and
// what is wrong with them then, as [Selector.Check] does.
func (s *Selector) Fit(t *registry.NormalizedTool, args json.RawMessage) (fitting json.RawMessage, faults []string) {
	return s.Check(t, translate(args, t))
}

// Alike reports whether two tools bear the same name, but for case and separators.
func Alike(a, b *registry.NormalizedTool) bool { return plain(a.Name) == plain(b.Name) }

// translate returns the arguments under the names that another tool has for them:
// those that differ only in case and separators.
func translate(args json.RawMessage, to *registry.NormalizedTool) json.RawMessage {
	names := make(map[string]string) // plain -> the tool's
	var known []string
	wire.Members(wire.Member(to.InputSchema, "properties"), func(name string, _ []byte) bool {
		names[plain(name)] = name
		known = append(known, name)
		return true
	})
	out := []byte{'{'}
	changed := false
	wire.Members(args, func(key string, value []byte) bool {
		if name, ok := names[plain(key)]; ok && !slices.Contains(known, key) && wire.Member(args, name) == nil {
			delete(names, plain(key)) // there is but one of the name
			key, changed = name, true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(wire.AppendString(out, key), ':')
		out = append(out, value...)
		return true
	})
	if !changed {
		return args
	}
	return append(out, '}')
}

// plain returns a name in lower case and without separators.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
