package profile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"

	"github.com/mcp-metarouter/metarouter/registry"
)

// terms are under which a tool may be called.
type terms struct {
	ask   Ask                        // why a person is asked first; the zero value is that no person is asked
	fixed map[string]json.RawMessage // arguments, by name
}

// terms returns under which terms a tool may be called. ok is false if it is not allowed.
func (r *Rules) terms(t *registry.NormalizedTool) (all terms, ok bool) {
	if t.Held {
		return terms{}, false
	}
	j := judged{tool: t, item: itemOf(t)}
	for _, profiles := range r.choices {
		if !j.add(profiles) {
			return terms{}, false
		}
	}
	return j.terms, true
}

// A judged is a tool with the terms of the choices so far.
type judged struct {
	terms
	tool     *registry.NormalizedTool
	item     item
	declares func(argument string) bool // the server's schema; nil until it is needed
}

// add adds the terms of one more choice: from the profile that adds the least to the terms so
// far. It reports false if no profile of the choice allows the tool under these.
func (j *judged) add(profiles choice) bool {
	var least terms
	allowed := false
	for _, c := range profiles {
		if !c.has(j.item) || c.config.ReadOnly && !j.tool.Reads() {
			continue
		}
		if added, ok := j.added(c); ok && (!allowed || added.compare(least) < 0) {
			least, allowed = added, true
		}
	}
	if !allowed {
		return false
	}
	if j.ask == (Ask{}) {
		j.ask = least.ask
	}
	if j.fixed == nil {
		j.fixed = least.fixed
	} else {
		maps.Copy(j.fixed, least.fixed)
	}
	return true
}

// added returns the terms of a profile without the arguments that are fixed already. ok is false if it
// fixes an argument to another value than a profile before.
func (j *judged) added(c *compiled) (added terms, ok bool) {
	for name, value := range c.fixedFor(j.item) {
		if j.declares == nil {
			j.declares = declares(j.tool.ArgumentSchema())
		}
		if own := j.tool.Keys[name]; own != "" { // as clients see it
			name = own
		}
		if !j.declares(name) {
			continue
		}
		if before, again := j.fixed[name]; again {
			if !bytes.Equal(before, value) {
				return terms{}, false
			}
			continue
		}
		if added.fixed == nil {
			added.fixed = make(map[string]json.RawMessage)
		}
		added.fixed[name] = value
	}
	added.ask = c.asks(j.item, j.tool)
	return added, true
}

// compare returns a negative number if a restricts a tool less than b.
func (a terms) compare(b terms) int {
	questions := func(x terms) int {
		if x.ask == (Ask{}) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(len(a.fixed), len(b.fixed)), cmp.Compare(questions(a), questions(b)))
}
