package main

import (
	"context"
	"fmt"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/registry"
)

// hintOptions are the flags of trust that are about hints.
type hintOptions struct {
	server string
	show   bool // only
}

// runTrustHints prints which hints of a server's tools changed since they were confirmed, and
// confirms them.
func runTrustHints(ctx context.Context, env *environment, o hintOptions) error {
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	if err := isInWaitingEdit(env, o.server); err != nil {
		return err
	}
	if _, err := configfile.Server(c, o.server); err != nil {
		return err
	}
	return withRouter(ctx, env, c, func(_ context.Context, r *adapter.Parts) error {
		changed := hints.Unconfirmed(r.Snapshot().Offer(o.server))
		if len(changed) == 0 {
			env.Note("no hints of %q wait to be confirmed", o.server)
			return nil
		}
		shown := printHints(env, changed)
		if o.show {
			return nil
		}
		err := r.ConfirmHints(o.server, shown)
		recordHere(r, o.server, "hints", err)
		if err != nil {
			return err
		}
		env.Say("%s of %q are confirmed.", hintsOf(len(changed)), o.server)
		for _, c := range changed {
			if t, ok := r.Tool(c.Tool.ID); ok && t.Doubt != "" {
				env.Note("%s still does not count as one that does no harm: %s; if its server is right, write \"trustHints\": true in the entry of %q", plain.Line(t.ID), t.Doubt, o.server)
			}
		}
		return nil
	})
}

// printHints prints the hints that changed, and returns them as they are now.
func printHints(env *environment, changed []hints.Change) map[string]registry.Hints {
	shown := make(map[string]registry.Hints, len(changed))
	for _, c := range changed {
		shown[c.Tool.ServerName()] = c.Tool.Hints
		env.Say("%s", plain.Line(c.Tool.ID))
		for _, line := range hints.Changes(c.Was, c.Tool.Hints) {
			env.SayBroken("  - ", line)
		}
	}
	return shown
}

func hintsOf(tools int) string {
	if tools == 1 {
		return "The hints of 1 tool"
	}
	return fmt.Sprintf("The hints of %d tools", tools)
}

// recordHere records that a command, which the running router r carries out, has acted on a server.
func recordHere(r *adapter.Parts, server, what string, err error) {
	e := audit.Event{Action: audit.Control, Outcome: audit.OK, Principal: configfile.UserName(), From: "terminal", Target: server, Reason: what}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, what+": "+err.Error()
	}
	r.Audit(e)
}
