package execute

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A target is a tool that may answer a call.
type target struct {
	tool      *registry.NormalizedTool
	policy    Policy        // of its server
	startWait time.Duration // for its server to start
}

// shortWait is how long a call waits for a server to start while others could answer instead.
const shortWait = time.Second

// maxPlaces bounds the servers that are called for one call.
const maxPlaces = 3

// targets returns the tools that may answer a call, in the order in which they are tried: the tool itself, and if there are stand-ins, those that can
// take the call best, and then the tool again. While there are stand-ins, a call waits only briefly for each server to start; the last target has the
// usual wait. A read-only tool on a server that is down comes after tools on servers that are up.
func (e *Executor) targets(c *Call, p Policy) []target {
	t := c.Tool
	standIns := e.standIns(c, p)
	if len(standIns) == 0 {
		return []target{{t, p, StartWait}}
	}
	e.Sort(standIns)
	all := []target{{t, p, shortWait}}
	for _, other := range standIns[:min(len(standIns), maxPlaces-1)] {
		all = append(all, target{other, e.Sessions.Policy(other.Server), shortWait})
	}
	if t.Reads() && e.standingOf(t.Server, p).state == down {
		slices.SortStableFunc(all, func(a, b target) int {
			return cmp.Compare(e.standingOf(a.tool.Server, a.policy).state, e.standingOf(b.tool.Server, b.policy).state)
		})
	}
	return append(all, target{t, p, StartWait})
}

// standIns returns the tools of the same name on the servers that may stand in for the server of the call's tool, as the call's catalog has them;
// nothing after a person has approved the tool. A read-only tool is replaced only by a read-only one.
func (e *Executor) standIns(c *Call, p Policy) (all []*registry.NormalizedTool) {
	t := c.Tool
	others, reads := p.StandIns, t.Reads()
	if reads {
		others = slices.Concat(p.StandIns, p.Twins)
	}
	if len(others) == 0 || c.Approve != nil {
		return nil
	}
	known := c.Catalog
	if known == nil {
		known = e.Registry.Snapshot()
	}
	isSame := func(other *registry.NormalizedTool) bool {
		return other.Name == t.Name || other.ServerName() == t.ServerName()
	}
	for _, server := range others {
		tools := known.Offer(server).Tools
		i := slices.IndexFunc(tools, isSame)
		if i >= 0 && (!reads || tools[i].Reads()) && (c.Unfit == nil || !c.Unfit(tools[i])) {
			all = append(all, tools[i])
		}
	}
	return all
}

// mayTurn reports whether a call that ended with err turns to a stand-in at once: a read-only one, if its server died or was late. A server that
// asked the client something may have been late because of the client.
func (x *execution) mayTurn(err error) bool {
	d := &x.delivery
	left := x.targets[x.tried:]
	if d.service != "" && len(left) > 0 && left[0].tool == d.tool { // another replica
		return d.mayRepeat(err)
	}
	if len(left) == 0 || left[0].startWait == StartWait || !x.call.Tool.Reads() || !d.repeatable() {
		return false
	}
	waited := d.permit != nil && d.permit.asked.Load()
	return isLate(err) && !waited || errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrNotSent)
}

// isLate reports whether a call ended because its time was over.
func isLate(err error) bool { return errors.As(err, new(*timeoutError)) }

// nextAttempt prepares the next attempt: the first one, a retry at the same target after a pause, or one at the next target. Before it changes the
// target, it leaves the server and notes the fault. It reports false if no other attempt may be made. err is how the last attempt ended.
func (x *execution) nextAttempt(ctx context.Context, err error) bool {
	if x.tried > 0 {
		turn := x.mayTurn(err)
		if turn && isLate(err) && x.delivery.tool == x.call.Tool {
			x.targets = x.targets[:len(x.targets)-1] // the tool itself is not tried again: its time is over
		}
		if !turn && x.delivery.pauseForRetry(ctx, err) {
			return true
		}
		x.delivery.leaveServer(ctx, err)
		if _, answered := errors.AsType[*session.Error](err); answered || ctx.Err() != nil {
			return false
		}
		if fault := err.Error(); !slices.Contains(x.faults, fault) {
			x.faults = append(x.faults, fault)
		}
		if !turn && !x.delivery.mayRepeat(err) {
			return false
		}
	}
	for x.tried < len(x.targets) {
		x.tried++
		if x.useTarget(ctx, x.targets[x.tried-1]) {
			return true
		}
	}
	return false
}

// afterLogin has the call's LogIn judge how the last attempt ended, which it may replace, and prepares another attempt if a person has logged in. It
// must be called after nextAttempt has returned false.
func (x *execution) afterLogin(ctx context.Context, err *error) bool {
	if x.call.LogIn == nil || x.loggedIn || *err == nil || ctx.Err() != nil {
		return false
	}
	x.loggedIn = true
	helps, why := x.call.LogIn(ctx, *err)
	if !helps {
		return false
	}
	if x.faults, *err = nil, why; why != nil {
		x.faults = []string{why.Error()}
		return false
	}
	x.tried, x.delivery.avoid = 0, nil
	return x.nextAttempt(ctx, nil)
}

// useTarget turns the delivery to a target. It reports false if the arguments do not fit the target's tool.
func (x *execution) useTarget(ctx context.Context, t target) bool {
	var args wire.Object
	args, x.checked = x.object, x.fits
	d := &x.delivery
	*d = delivery{e: d.e, from: d.from, meta: d.meta, attempts: d.attempts, avoid: d.avoid, tool: t.tool, server: t.tool.Server, what: t.tool.ServerName(), policy: t.policy, startWait: t.startWait}
	if t.policy.Service != nil && !x.call.Here {
		d.useReplica(x.only)
	}
	if t.tool != x.call.Tool {
		fitting := x.e.Check(ctx, t.tool, x.args)
		if len(fitting.Faults) > 0 && !fitting.Unchecked {
			x.faults = append(x.faults, t.tool.ID+" takes other arguments: "+fitting.Faults[0])
			return false
		}
		args, _ = wire.ParseObject(fitting.Sent)
		x.checked = fitting.passed()
	}
	d.request = session.Request{Method: toolsCall, Params: callParams(&x.call, d.what, args), Meta: d.meta, From: d.from, Repeatable: d.repeatable(), Asks: x.call.Script != ""}
	if d.policy.Gateway != "" {
		d.request.Origin = session.NewOrigin(x.call.Profile, x.call.Rules, x.call.Principal, x.call.PrincipalName)
		if d.service != "" {
			d.request.Origin.As = d.service
		}
	}
	return true
}
