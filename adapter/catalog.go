package adapter

import (
	"context"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A catalog is what a router knows of what its servers offer.
type catalog struct {
	current  *holder
	registry *registry.Registry
	writer   *catalogWriter
	fleet    *fleet
	onDemand bool
}

// Snapshot returns all that the servers offer, as it is known now. It does not block.
func (c *catalog) Snapshot() *registry.Snapshot { return c.registry.Snapshot() }

// Changed returns a channel that is closed at the next change of the snapshot.
func (c *catalog) Changed() <-chan struct{} { return c.registry.Changed() }

// Complete reports whether the tools of every server that can run are known.
func (c *catalog) Complete() bool { return len(c.Unlisted()) == 0 }

// Seen notes that a person has seen how the definitions of the server's tools changed; see
// LastSeen of [registry.Offer].
func (c *catalog) Seen(server string) error { return c.writer.seen(server) }

// ConfirmHints notes that a person has confirmed the hints that were shown, by the server's own
// names of its tools; see Confirmed of [registry.Offer]. It is an error if a tool has other
// hints by now: that one stays unconfirmed.
func (c *catalog) ConfirmHints(server string, shown map[string]registry.Hints) error {
	return c.writer.confirm(server, shown)
}

// Unlisted returns the names of servers that may have tools that are not known.
func (c *catalog) Unlisted() []string { return c.unlistedOf(anyServer) }

func anyServer(string) bool { return true }

// unlistedOf is Unlisted, of the servers that has is true for.
func (c *catalog) unlistedOf(has func(server string) bool) []string {
	var names []string
	for _, s := range c.current.load().config.Servers {
		if supervisor.Startable(s) && has(s.Name) && !c.writer.listed(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Settled returns when each server has been listed, if only from the stored catalog, or
// has failed; or when ctx ends. Servers of other nodes are waited for a short time; the error
// says why some may be missing.
func (c *catalog) Settled(ctx context.Context) error { return c.settledOf(ctx, anyServer) }

// settledOf is Settled, of the servers that has is true for.
func (c *catalog) settledOf(ctx context.Context, has func(server string) bool) error {
	var asleep []string
	if c.onDemand {
		asleep = c.unlistedOf(has)
	}
	until(ctx, c.fleet.supervisor, func() bool { return c.areSettled(c.unlistedOf(has)) }, asleep)
	missing := c.fleet.members.settled(ctx)
	if c.onDemand { // the router ends too soon to ask an outside classifier about each tool
		c.writer.guess(ctx)
	}
	return missing
}

// areSettled reports whether the servers, whose tools are not known, have failed.
func (c *catalog) areSettled(unknown []string) bool {
	if len(unknown) == 0 {
		return true
	}
	for _, name := range unknown {
		if s := c.fleet.supervisor.State(name); s == "" || s == status.Starting || s == status.Idle {
			return false
		}
	}
	return true
}
