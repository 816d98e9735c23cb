package rank

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
)

// sameScore is the least share of a tool's score that an equal tool with another
// description must have to be the same choice: one "search" may search the web, another one
// the mail.
const sameScore = 0.98

// Unranked returns a tool as a candidate of which nothing is known.
func Unranked(d *index.Document) Candidate { return Candidate{Tool: d.Tool, same: d.Same} }

// JoinPlaces makes one candidate of the equal tools of several servers, so that they are one
// choice: the first of them, with all in its Places. ranked is in order, and stays so.
func JoinPlaces(ranked []Candidate) []Candidate {
	equal := make(map[uint64][]int, len(ranked)) // the indexes in joined of equal tools, by their common hash
	joined := ranked[:0]
	for _, c := range ranked {
		choices := equal[c.same]
		i := slices.IndexFunc(choices, func(i int) bool { return joined[i].isSameAs(&c) })
		if i >= 0 {
			one := &joined[choices[i]]
			one.Places = append(one.all(), c.all()...)
			continue
		}
		if c.Tool != nil {
			equal[c.same] = append(choices, len(joined))
		}
		joined = append(joined, c)
	}
	return joined
}

// all returns the tool in each of its places.
func (c *Candidate) all() []*registry.NormalizedTool {
	if c.Places != nil {
		return c.Places
	}
	return []*registry.NormalizedTool{c.Tool}
}

// isSameAs reports whether d, which has an equal tool and no higher score than c, is
// the same choice.
func (c *Candidate) isSameAs(d *Candidate) bool {
	return c.Tool.Server != d.Tool.Server && (c.Tool.Description == d.Tool.Description || d.Score >= sameScore*c.Score)
}

// IDs returns the tool's ID, and then the IDs of its other places.
func (c Candidate) IDs() (ids []string) {
	if c.Tool == nil {
		return nil
	}
	for _, t := range c.all() {
		ids = append(ids, t.ID)
	}
	return ids
}
